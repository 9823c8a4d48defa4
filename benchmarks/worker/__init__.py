"""What a worker costs, weighs, and how soon it acts: `python -m benchmarks.worker` prints one table."""
