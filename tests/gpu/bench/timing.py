# SPDX-License-Identifier: Apache-2.0
"""GPU time per call of several contestants in turn: A B C, C B A, A B C, ...

Inputs rotate among sets that together exceed the second-level cache threefold. Where the fastest
contestant takes less than 50 µs, all are timed as CUDA graphs of at least 20 launches, else by a pair
of events around at least 30 calls, queued behind a kernel that waits, so that the host is not measured:
where the host had not enqueued all of them before the first began, they are made again behind a longer wait.
"""
import statistics

import torch

CACHE = 60 << 20
MOST_SETS = 256
GRAPH_BELOW = 50.0  # µs
GRAPH_CALLS = 20
EVENT_CALLS = 30
SLOW, SLOW_CALLS, SLOW_TOTAL = 2000.0, 6, 60000.0  # µs: contestants that need not be called so often
WAIT_CYCLES, MOST_WAIT_CYCLES = 3_000_000, 200_000_000


def sets_for(row):
    """How many sets of inputs a row needs."""
    return max(2, min(MOST_SETS, -(-3 * CACHE // row.bytes)))


def elapsed(work, calls):
    """µs per call of work(), which makes that many. RuntimeError where its host is too slow to tell."""
    wait = WAIT_CYCLES
    while wait <= MOST_WAIT_CYCLES:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(wait)
        start.record()
        work()
        end.record()
        waited = not start.query()
        end.synchronize()
        if waited:
            return start.elapsed_time(end) * 1e3 / calls
        wait *= 4
    raise RuntimeError("the host takes longer to enqueue the calls than the GPU was kept waiting")


def estimate(contestant, sets):
    with contestant.open():
        for x in sets[:2]:
            contestant.call(x)
        return elapsed(lambda: [contestant.call(sets[n % len(sets)]) for n in range(3)], 3)


def as_graph(contestant, sets):
    """(work, calls): one graph, replayed for about a millisecond."""
    calls, graph = max(GRAPH_CALLS, len(sets)), torch.cuda.CUDAGraph()
    with contestant.open():
        for inputs in sets:  # what a call takes memory for must not be taken while the graph is captured
            contestant.call(inputs)
    torch.cuda.synchronize()
    with contestant.open(), torch.cuda.graph(graph):
        results = [contestant.call(sets[n % len(sets)]) for n in range(calls)]
    del results  # they were alive together, so that no call of the graph writes where another did
    replays = max(3, min(20, int(1000 / (elapsed(graph.replay, calls) * calls))))

    def work():
        for _ in range(replays):
            graph.replay()
    return work, replays * calls


def as_calls(contestant, sets, estimated):
    calls = EVENT_CALLS if estimated < SLOW else max(SLOW_CALLS, int(SLOW_TOTAL / estimated))

    def work():
        with contestant.open():
            for n in range(calls):
                contestant.call(sets[n % len(sets)])
    return work, calls


def race(contestants, sets, rounds):
    """Returns ("graph" or "events", {label: {"us", "low", "high", "rounds", "calls"}}, {label: why it
    could not run}), us being the median."""
    estimated, failed = {}, {}
    for c in contestants:
        try:
            estimated[c.label] = estimate(c, sets)
        except RuntimeError as error:
            failed[c.label] = str(error).splitlines()[0]
    graph = min(estimated.values()) < GRAPH_BELOW
    work = {c.label: as_graph(c, sets) if graph else as_calls(c, sets, estimated[c.label])
            for c in contestants if c.label in estimated}
    taken = {label: [] for label in work}
    for n in range(rounds):
        for label in list(work)[::-1 if n % 2 else 1]:
            taken[label].append(elapsed(*work[label]))
    return ("graph" if graph else "events"), {
        label: {"us": statistics.median(us), "low": min(us), "high": max(us), "rounds": us,
                "calls": work[label][1]} for label, us in taken.items()}, failed
