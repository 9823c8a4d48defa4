"""`millgate dev`: the manifests of a folder run on this machine, with processes in place of pods."""
