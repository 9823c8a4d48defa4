"""The Kubernetes operator: TaskQueue and Topic resources become brokers, limits and workers."""
