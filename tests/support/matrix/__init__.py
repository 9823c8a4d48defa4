"""The fault matrix: every verb meets every fault on every road to a broker behind a socket."""
