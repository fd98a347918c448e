"""Races in tests and in an operator that exploring finds, and correct tests that never fail.

- `planted_tests`, `planted_operator`: ten tests, and an operator in twelve variants, with a race
  each. They pass while events come in their usual order. pytest does not collect them by itself.
- `test_repaired_tests`, `test_repaired_operator`: the same without the races.
- `test_correct_tests`: ten more tests that hold under every order of events.

`python -m conformance.explore.bars` explores them all: at least 20 of the 22 races are found in
200 runs at the level `usual`, and none of the 32 correct tests fails in 1,000 runs at `gentle`.
"""
