"""The worker: guardian, supervisor and children, and what passes between them."""
