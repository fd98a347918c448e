"""Webhooks whose exact responses are compared: conversion, admission."""
