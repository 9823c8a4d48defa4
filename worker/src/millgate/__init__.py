"""Millgate runs background tasks: this package is the client, the brokers, the worker and the command line."""
