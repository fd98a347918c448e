"""Races in tests and in an operator that exploring finds, and correct tests that never fail.

- `planted_tests`, `planted_operator`: ten tests, and an operator in twelve variants, with a race
  each. They pass while events come in their usual order. pytest does not collect them by itself.
- `planted_kopf`: a kopf operator in a pod, in six variants with a mistake each.
- `test_repaired_tests`, `test_repaired_operator`, `test_repaired_kopf`: the same without them.
- `test_correct_tests`: ten more tests that hold under every order of events.

`python -m conformance.explore.bars` explores all but the pod, which takes long to start: at least
20 of the 22 races are found in 200 runs at the level `usual`, and none of the 32 correct tests
fails in 1,000 runs at `gentle`.
"""
