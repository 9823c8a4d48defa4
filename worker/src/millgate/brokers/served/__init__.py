"""What serves a queue from one process's memory, and what calls it, whatever carries the calls.

`local` carries them over a socket and keeps its journal on a disk; `rabbitmq` carries both over a RabbitMQ server.
"""
