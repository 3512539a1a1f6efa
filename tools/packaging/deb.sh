#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# deb.sh ROOT VERSION DIR: makes DIR/fashim_VERSION_ARCH.deb of what was installed below ROOT with
# PREFIX=/usr, the way Debian policy wants it: stripped, documentation packed, dependencies found from
# what the programs link. DEBFULLNAME and DEBEMAIL name the maintainer. Needs dpkg-deb and dpkg-shlibdeps.

set -eu
root=$1
version=$2
dir=$3
here=$(cd "$(dirname "$0")" && pwd)
doc=$root/usr/share/doc/fashim
arch=$(dpkg --print-architecture)
maintainer="${DEBFULLNAME:-fashim maintainers} <${DEBEMAIL:-maintainers@fashim.invalid}>"
epoch=${SOURCE_DATE_EPOCH:-$(git -C "$here" log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH="$epoch" # of every file in the package

strip --strip-unneeded --remove-section=.comment "$root/usr/bin/fashim" \
	"$root/usr/lib/fashim/libfashim.so" "$root/usr/lib/fashim/libfashim_kernels.so"

mkdir -p "$doc" "$root/DEBIAN"
install -m 644 "$here/copyright" "$doc/copyright"
cat >"$doc/changelog" <<-END
	fashim ($version) unstable; urgency=medium

	  * Version $version.

	 -- $maintainer  $(LC_ALL=C date -u -R -d "@$epoch")
END
chmod 644 "$doc/changelog"
gzip -9n "$doc/changelog"
find "$root/usr/share/man" -type f -exec gzip -9n {} +

# dpkg-shlibdeps wants to be called where a source package lies.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/debian"
printf 'Source: fashim\n\nPackage: fashim\nArchitecture: any\n' >"$scratch/debian/control"
depends=$(cd "$scratch" && dpkg-shlibdeps -O "$root/usr/bin/fashim" "$root/usr/lib/fashim/libfashim.so" |
	sed -n 's/^shlibs:Depends=//p')

(cd "$root" && find usr -type f -exec md5sum {} + | LC_ALL=C sort -k2) >"$root/DEBIAN/md5sums"
cat >"$root/DEBIAN/control" <<-END
	Package: fashim
	Version: $version
	Section: science
	Priority: optional
	Architecture: $arch
	Maintainer: $maintainer
	Installed-Size: $(du -sk --apparent-size "$root/usr" | cut -f1)
	Depends: $depends
	Suggests: bash-completion
	Description: run unmodified CUDA programs with their attention fused
	 fashim watches the cuBLAS and driver calls of a program, recognises attention
	 that is spelt as two matrix products with a softmax between, verifies on the
	 program's own data what it computes, and from then on runs it as one fused
	 kernel. Its log tells for each place how much time was saved, how far the
	 numbers moved, or why it was left alone.
END
chmod 644 "$root/DEBIAN/md5sums" "$root/DEBIAN/control"
find "$root" -type d -exec chmod 755 {} +
dpkg-deb --root-owner-group --build "$root" "$dir/fashim_${version}_$arch.deb"
