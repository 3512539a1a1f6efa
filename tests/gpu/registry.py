# SPDX-License-Identifier: Apache-2.0
"""What a test program for the GPU machine is, and what is expected of it under the shim.

A program is a builder: called with a variant ("eager", "sdpa", "double", …) it returns step(i), and
step(i) runs the i-th forward and returns {name: tensor}. Inputs differ from forward to forward, so
that an answer left over from an earlier one is seen. This file imports neither torch nor anything
else heavy: run.py reads the expectations without it.
"""

PROGRAMS = {}


class Expect:
    """What the log and the outputs of a run with FASHIM=replace must show.

    kind     replace: every chain from the 4th occurrence of a site on
             decline: nothing beyond two occurrences a site, and one of `reasons` is logged
             either:  replaced, or left alone with any reason
    chains   attention chains per forward, for kind replace; fixed: chains outside the forwards
    sites    most sites that the chains may form
    tol      how far outputs may be from the plain run once something was replaced:
             "sdpa": twice the distance between the program's own eager and SDPA outputs,
             "double": error against float64 at most twice the program's own plus `step`,
             or a number
    step     one rounding step, for tol "double"
    most     an absolute bound on the distance from the plain run, on top of tol; or None
    reasons  one of them must be in the log (kind either: when nothing was replaced)
    share    instead of counting exactly: least share of all chains that is replaced
    slack    occurrences that a site may leave out beyond learning, for a stated cause
    exact    outputs that must be bit-identical whatever was replaced
    silent   there may be no log at all: whether the program calls cuBLAS is its library's choice
    loose    {output name: tolerance} for outputs with a tolerance of their own
    """

    def __init__(self, kind, chains=1, fixed=0, sites=2, tol=2e-3, step=0.0, most=None, exact=(),
                 loose=None, reasons=(), share=None, slack=0, silent=False):
        self.kind, self.chains, self.fixed, self.sites = kind, chains, fixed, sites
        self.tol, self.step, self.most = tol, step, most
        self.silent = silent
        self.exact, self.loose, self.reasons = tuple(exact), dict(loose or {}), tuple(reasons)
        self.share, self.slack = share, slack


class Program:
    """One row of the table. `few` is the number of forwards for a short run (traces);
    `timed`: None, or keyword arguments of the builder for a timed run. `options`: the
    shim's, beside its mode. `binary`: what is started in place of Python, below the folder of the
    compiled programs; None where there is a builder. `ranks`: processes that are one program, each
    with outputs and a log that must be as expected. `tags`: what starts them, "torchrun" or "mps"."""

    def __init__(self, name, expect, build=None, binary=None, repeat=8, few=2, variants=(),
                 timed=None, faster=False, quick=False, tags=(), modes=(), options=(),
                 ranks=1):
        self.name, self.expect, self.build, self.binary = name, expect, build, binary
        self.repeat, self.few = repeat, few
        self.variants, self.timed, self.faster = variants, timed, faster
        self.quick, self.tags, self.modes, self.options = quick, tags, modes, dict(options)
        self.ranks = ranks
        self.about = ((build and build.__doc__) or "").strip().split("\n")[0]


def program(expect, **more):
    """Registers the decorated builder. modes: FASHIM modes to run beside `replace`."""

    def register(build):
        entry = Program(build.__name__.rstrip("_"), expect, build, **more)
        assert entry.name not in PROGRAMS, entry.name
        PROGRAMS[entry.name] = entry
        return build

    return register
