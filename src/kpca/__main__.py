"""``python -m kpca`` is the command ``kpca``."""

from kpca.cli import run

if __name__ == "__main__":
    run()
