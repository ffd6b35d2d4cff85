"""Prototype: cumulants through a stage."""
from __future__ import annotations
from collections import Counter
from fractions import Fraction
from functools import cache, lru_cache
from itertools import combinations_with_replacement, product
from math import factorial, prod
from ..arithmetic.parameters import C_B, C_W
from ..arithmetic.polynomials import UNIT, add, monomial, multiply, multiply_all, power, times
from ..gaussian.brackets import Bracket
from ..groups.pairings import coset_type, mobius, ordered, pair_partitions, refining_pairings, set_partitions
from .cumulants import splittings, _convolve
from .fields import Field, slots_of
from .stages import Averaged, through, Response
from .tensors import tensor


class Tagged(tuple):
    pass


def stage_cumulant(stage, fields, samples, weights, order, pairing):
    slots = slots_of(fields)
    one_ended = any(len(mean.factors) % 2 for mean in stage.means)

    @cache
    def moment(block, pairs):
        result = {}
        bases = [through(stage, fields[f], slots[f], tuple(samples[s] for s in slots[f])) for f in block]
        wholes = Counter()
        for base in product(*bases):
            plain = list(_wholes(base, 0, pairs))
            room = order
            if plain:
                found = {}
                for whole in plain:
                    for averaged in evaluate(whole, pairs):
                        add(found, averaged)
                add(result, found)
                low = min((k for _, k in found), default=None)
                if low is not None:
                    room = order - low
                elif not one_ended:
                    room = 0
            elif not one_ended:
                room = 0
            if not stage.means:
                continue
            for degree in range(1, 2 * room + 1):
                for whole in _wholes(base, degree, pairs):
                    wholes[_normal(whole)] += 1
        for whole, count in wholes.items():
            for averaged in evaluate(whole, pairs):
                add(result, averaged, count)
        return result

    def evaluate(whole, pairs):
        return _average(whole, _rows(whole, pairs), pairs, weights, order)

    total = {}
    for blocks in splittings(slots, pairing):
        add(total, multiply_all([moment(*b) for b in blocks], order), mobius(len(blocks)))
    return total


def _wholes(bases, degree, pairs):
    from .stages import _compositions
    for split in _compositions(degree, len(bases)):
        for terms in product(*(b.degree(d) for b, d in zip(bases, split))):
            whole = prod(terms, start=Averaged())
            if _rows(whole, pairs) is not None:
                yield whole


def _normal(whole):
    """Renamed by order of appearance among the fields, sorted."""
    placed = sorted(whole.fields, key=lambda p: (p.field.rank, p.samples, [j if j < 0 else 99 for j in p.neurons]))
    factors = sorted(whole.factors, key=lambda f: (f[1], f[2]))
    order = []
    for _, _, j in sorted(whole.weights, key=lambda w: w[:2]):
        if j not in order:
            order.append(j)
    for p in placed:
        for j in p.neurons:
            if j >= 0 and j not in order:
                order.append(j)
    for f in factors:
        if f[0] not in order:
            order.append(f[0])
    for j in range(len(whole.neurons)):
        if j not in order:
            order.append(j)
    to = {j: k for k, j in enumerate(order)}
    return whole._replace(
        fields=tuple(sorted((p._replace(neurons=tuple(to.get(j, j) for j in p.neurons)) for p in placed), key=lambda p: (p.field.rank, p.samples, p.neurons))),
        factors=tuple(sorted(((to[f[0]], *f[1:]) for f in factors), key=lambda f: f[:3])),
        weights=tuple(sorted((m, s, to[j]) for m, s, j in whole.weights)),
        neurons=tuple(whole.neurons[j] for j in order),
        atoms=tuple(sorted(whole.atoms, key=str)),
        means=tuple(sorted(whole.means)),
    )


def _rows(whole, pairs):
    """Per matrix, which of its weights have equal rows; None where the pairs do not match."""
    of = {slot: ("w", m) for m, slot, _ in whole.weights}
    of |= {slot: ("b", kind) for slot, kind in whole.biases}
    for p in whole.fields:
        for j, k in zip(p.neurons, range(p.field.nodes)):
            if j < 0:
                of[-1 - j] = ("c", p.field.kind(k).space)
    fixed = {ordered(a, b) for a, b in whole.deltas}
    if not fixed <= set(pairs):
        return None
    rows = {}
    for a, b in pairs:
        if (a, b) in fixed:
            continue
        if a not in of or b not in of or of[a] != of[b]:
            return None
        if of[a][0] == "w":
            rows.setdefault(of[a][1], []).append((a, b))
    return rows


def _average(whole, rows, pairs, weights, order):
    external = {}
    for k, (a, b) in enumerate(pairs):
        external[-1 - a] = external[-1 - b] = -1 - k
    fields = tuple(p._replace(neurons=tuple(external.get(j, j) for j in p.neurons)) for p in whole.fields)
    pre = {(times(whole.parameters, monomial(whole.atoms)), len(whole.means)): whole.coefficient}
    half = len(whole.biases) // 2
    pre = multiply(pre, {(power(C_B, half), 0): Fraction(1)}, 99)
    matrices = []
    for m, paired in rows.items():
        own = [(slot, j) for mm, slot, j in whole.weights if mm == m]
        place = {slot: k for k, (slot, _) in enumerate(own)}
        p = tuple(sorted(ordered(place[a], place[b]) for a, b in paired))
        matrices.append((m, own, p))
    total_half = sum(len(p) for _, _, p in matrices)
    for qs in product(*(pair_partitions(2 * len(p)) for _, _, p in matrices)):
        spectrum = {(UNIT, 0): Fraction(1)}
        name = list(range(len(whole.neurons)))
        for (m, own, p), q in zip(matrices, qs):
            s = weights.expansion(coset_type(p, q), order + total_half + 2, True)
            spectrum = multiply(spectrum, s, 99)
            variance = whole_variance(m)
            spectrum = multiply(spectrum, {(power(variance, len(p)), 0): Fraction(1)}, 99)
            for a, b in q:
                i, j = name[own[a][1]], name[own[b][1]]
                name = [i if x == j else x for x in name]
        if not spectrum:
            continue
        low = min(k for _, k in spectrum)
        number = {j: sorted(set(name)).index(name[j]) for j in range(len(name))}
        spaces = {number[j]: whole.neurons[j] for j in number}
        factors = tuple((number[j], s, o, a) for j, s, o, a in whole.factors)
        placed = tuple(p._replace(neurons=tuple(number.get(j, j) for j in p.neurons)) for p in fields)
        below = _sum(factors, placed, tuple(spaces[k] for k in range(len(spaces))), order - low - len(whole.means), tuple(external.values()))
        yield multiply(multiply(pre, spectrum, 99), below, order)


STAGE = None
def whole_variance(m):
    return STAGE.matrices[m].variance


def _sum(factors, fields, spaces, order, externals):
    """Σ over neurons."""
    carried = {}
    for p in fields:
        for node, j in enumerate(p.neurons):
            if j < 0:
                carried[j] = p.field.kind(node).space
    result = {}
    count = len(spaces)
    for partition in set_partitions(tuple(range(count))):
        if any(len({spaces[j] for j in block}) > 1 for block in partition):
            continue
        budget = order + len(partition)
        # each block is a new neuron, or one of the carried
        for merged in product(*([None, *(c for c, sp in carried.items() if sp == spaces[block[0]])] for block in partition)):
            used = [c for c in merged if c is not None]
            if len(set(used)) < len(used):
                continue
            free = [b for b, c in enumerate(merged) if c is None]
            budget = order + len(free)
            if budget < 0:
                continue
            names = list(carried)
            to = {}
            for b, block in enumerate(partition):
                for j in block:
                    to[j] = len(names) + free.index(b) if merged[b] is None else names.index(merged[b])
            for k, c in enumerate(names):
                to[c] = k
            total = len(names) + len(free)
            content = [[] for _ in range(total)]
            for j, s, o, a in factors:
                content[to[j]].append((s, o, a))
            neurons = tuple(tuple(sorted(c, key=lambda x: (x[0], x[1]))) for c in content)
            placed = tuple(p._replace(neurons=tuple(to[j] for j in p.neurons)) for p in fields)
            averaged = _expand(neurons, placed, budget)
            # how many choices: by space, falling factorial from the number carried there
            ways = {(UNIT, 0): Fraction(1)}
            for sp in {spaces[partition[b][0]] for b in free}:
                n_free = sum(spaces[partition[b][0]] == sp for b in free)
                start = sum(x == sp for x in carried.values())
                for k in range(start, start + n_free):
                    ways = multiply(ways, {(UNIT, -1): Fraction(1), (UNIT, 0): Fraction(-k)}, 99)
            ways = {k: v for k, v in ways.items() if v}
            add(result, multiply(ways, averaged, order))
    return result


@lru_cache(maxsize=100_000)
def _expand(neurons, fields, order):
    targets = tuple(sorted({(j, s, a) for j, fs in enumerate(neurons) for s, _, a in fs}, key=lambda t: t[:2]))
    result = {}
    live = {j for j, _, _ in targets}
    for partition in _partitions(fields, frozenset(live), order):
        for insertions in _choices(partition, targets, order):
            for (outer, mono, n_power), value in insertions.items():
                averages = []
                scales = []
                for j, fs in enumerate(neurons):
                    if not fs:
                        continue
                    derivs = tuple(s for i, s, _ in outer if i == j)
                    averages.append(Bracket(tuple((s, o) for s, o, _ in fs), derivs))
                for i, s, a in outer:
                    if a.scale is not None:
                        scales.append(a.scale._replace(sample=s))
                add(result, {(times(mono, monomial(averages + scales)), n_power): value})
    return result


def _partitions(fields, live, budget):
    """The partitions into joint cumulants that can be of this order or less."""
    if not fields:
        yield ()
        return
    first, rest = fields[0], fields[1:]
    from itertools import combinations
    for size in range(len(rest) + 1):
        for others in combinations(range(len(rest)), size):
            block = (first, *(rest[k] for k in others))
            nodes = sum(p.field.nodes for p in block)
            cost = (nodes + 1) // 2 - 1
            if cost > budget:
                continue
            odd = set()
            for p in block:
                for node, j in enumerate(p.neurons):
                    odd ^= {(j, p.field.kind(node).space)}
            if any(j not in live for j, _ in odd):
                continue
            left = tuple(rest[k] for k in range(len(rest)) if k not in others)
            for tail in _partitions(left, live, budget - cost):
                yield (block, *tail)
        if (first.field.nodes + size + 2) // 2 - 1 > budget:
            break


def _choices(blocks, targets, order):
    partial = {((), UNIT, 0): Fraction(1)}
    for block in blocks:
        nodes = sum(p.field.nodes for p in block)
        joined = {}
        for extra in range(nodes % 2, 2 * order + 3 - nodes, 2):
            pairs = (nodes + extra) // 2
            for relative in range(order - pairs + 2):
                _convolve(joined, partial, _insert(block, extra, relative, targets), order)
        partial = joined
    kinds = [(2 * p, r) for p in range(1, order + 2) for r in range(order + 2 - p) if (p, r) != (1, 0)]
    cost = {k: k[0] // 2 - 1 + k[1] for k in kinds}
    for number in range(order + 1):
        for chosen in combinations_with_replacement(kinds, number):
            if sum(cost[k] for k in chosen) > order:
                continue
            repeats = prod(factorial(c) for c in Counter(chosen).values())
            current = {k: v / repeats for k, v in partial.items()}
            for extra, relative in chosen:
                joined = {}
                _convolve(joined, current, _insert((), extra, relative, targets), order)
                current = joined
            yield current


@lru_cache(maxsize=100_000)
def _insert(block, extra, relative, targets):
    result = {}
    neurons = [j for p in block for j in p.neurons]
    samples = [s for p in block for s in p.samples]
    spaces = [p.field.kind(k).space for p in block for k in range(p.field.nodes)]
    for outer in combinations_with_replacement(targets, extra):
        weight = Fraction(1, prod(factorial(c) for c in Counter(outer).values()))
        fields = (*(p.field for p in block), *(Field(1, (), (a.kind,)) for _, _, a in outer))
        slots = list(zip(neurons + [j for j, _, _ in outer], spaces + [a.kind.space for _, _, a in outer]))
        labels = tuple(samples + [s for _, s, _ in outer])
        places = [[k for k, at in enumerate(slots) if at == one] for one in set(slots)]
        if any(len(p) % 2 for p in places):
            continue
        for pairing in refining_pairings(places):
            atom = tensor(fields, relative, pairing, labels)
            key = (outer, monomial([atom]), atom.n_power)
            result[key] = result.get(key, Fraction(0)) + weight
    return result
