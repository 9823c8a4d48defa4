"""What tests share: builders, a clock that can be turned, waiting, servers."""
