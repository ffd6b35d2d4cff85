"""A graph convolution on Zachary's karate club: K and V by member, from theory and an ensemble.

    python docs/examples/graph.py

The edges are those of W. Zachary, "An information flow model for conflict and fission in small
groups", J. Anthropological Research 33 (1977) 452. A member has four features, noise but for the
two that the club split about: +1 is added at the instructor (1), −1 at the administrator (34).

K needs all pairs of the 34 members, V all fours. What a member's output depends on is fewer: its
friends, and theirs. V is of networks that have these alone.
"""

import numpy as np

from derive import Network, layers
from numeric import compare, flow, simulate

FRIENDS = """
2: 1; 3: 1 2; 4: 1 2 3; 5: 1; 6: 1; 7: 1 5 6; 8: 1 2 3 4; 9: 1 3; 10: 3; 11: 1 5 6; 12: 1; 13: 1 4
14: 1 2 3 4; 17: 6 7; 18: 1 2; 20: 1 2; 22: 1 2; 26: 24 25; 28: 3 24 25; 29: 3; 30: 24 27; 31: 2 9
32: 1 25 26 29; 33: 3 9 15 16 19 21 23 24 30 31 32
34: 9 10 14 15 16 19 20 21 23 24 27 28 29 30 31 32 33
"""
"""The members, and their friends among those before them."""

MEMBERS = 34


def club() -> np.ndarray:
    """The adjacency of the club, (34, 34)."""
    A = np.zeros((MEMBERS, MEMBERS))
    for line in FRIENDS.replace(";", "\n").strip().splitlines():
        member, friends = line.split(":")
        for friend in friends.split():
            A[int(member) - 1, int(friend) - 1] = A[int(friend) - 1, int(member) - 1] = 1
    return A


def convolution(A: np.ndarray) -> np.ndarray:
    """D^{-1/2} (A + 1) D^{-1/2}, as `layers.mix` makes it with normalization="symmetric"."""
    loops = A + np.eye(len(A))
    degrees = loops.sum(axis=1)
    return loops / np.sqrt(np.outer(degrees, degrees))


def around(S: np.ndarray, members: list[int], count: int) -> tuple[list[int], list[layers.Layer]]:
    """What so many convolutions at these members read of the inputs, and these convolutions."""
    made: list[layers.Layer] = []
    for _ in range(count):
        read = np.flatnonzero(S[members].any(axis=0)).tolist()
        made.insert(0, layers.mix(S[np.ix_(members, read)]))
        members = read
    return members, made


def shown(
    made: list[layers.Layer], inputs: np.ndarray, members: list[int], tensor: str, draws: int
) -> None:
    """Print theory and the limit of networks of three widths, of each member with itself."""
    net = Network("relu", C_b=0.05, C_W=2, layer=made)
    depth = 1 + len(made)
    theory = flow(net, inputs, depth, tensor)
    ensembles = [simulate(net, inputs, n, depth, draws, tensors=tensor) for n in (16, 32, 64)]
    found = compare(theory, ensembles)
    print(f"{tensor}, in networks of {len(inputs)} members\nmember   theory   ensemble")
    for row in found.rows:
        if row.layer == depth and len(set(row.indices)) == 1:
            member = members[row.indices[0]] + 1
            print(f"{member:6}  {row.theory:7.4f}  {row.sample:7.4f} ± {row.se:.4f}")
    print(f"{len(found.rows)} components agree: {found.agrees}\n")


def main() -> None:
    """Print K of all members and V of two, behind two graph convolutions."""
    A = club()
    features = 0.5 * np.random.default_rng(0).normal(size=(MEMBERS, 4))
    features[0] += 1
    features[-1] -= 1
    twice = [layers.mix(A, normalization="symmetric")] * 2
    shown(twice, features, list(range(MEMBERS)), "K", 2000)
    two = [16, 24]
    read, made = around(convolution(A), two, 2)
    shown(made, features[read], two, "V", 20_000)


if __name__ == "__main__":
    main()
