"""Measurements of Millgate, and of its peers on the same server in the same call: `python -m benchmarks`."""
