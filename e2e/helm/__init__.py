"""Charts: releases that a test installs, changes and loses again."""
