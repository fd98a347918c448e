"""Races in tests and in an operator that exploring finds, and correct tests that it leaves alone.

- `planted_tests` and `planted_operator`: ten tests, and ten tests of an operator, with one race each. They pass as
  long as events come in their usual order. pytest does not collect them by itself.
- `test_repaired_tests`, `test_repaired_operator`: the same twenty without the races.
- `test_correct_tests`: ten more tests whose outcome does not depend on the order of events.

`python -m e2e.explore.bars` explores all of them and holds the bars.
"""
