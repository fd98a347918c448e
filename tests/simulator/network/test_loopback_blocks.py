"""Blocks of the loopback interface."""

from __future__ import annotations

from pytest_kwait.simulator.network.loopback_blocks import hold_block, is_loopback


def test_block_is_one_cluster_s_own() -> None:
    holder, block = hold_block(41)
    other, next_block = hold_block(block - 1)
    assert block != next_block
    holder.close()
    other.close()


def test_addresses_and_networks_of_the_loopback_interface() -> None:
    assert is_loopback("127.9.0.0/16")
    assert is_loopback("127.0.0.1")
    assert not is_loopback("10.127.0.1")
