"""Plays one trouble on real workers, or its mended version.

    python run.py child_killed --kafka 127.0.0.1:9092
    python run.py child_killed --kafka 127.0.0.1:9092 --mended
    python run.py --list

The events go to the topic `task-events`, under the trouble's name as namespace (`child_killed`, `child_killed-mended`).
"""

from __future__ import annotations

import argparse
import importlib
import os
from pathlib import Path

from stage import HERE, Stage


def main() -> None:
    names = sorted(p.stem for p in Path(HERE / "troubles").glob("[a-z]*.py"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trouble", nargs="?", choices=names)
    parser.add_argument("--kafka", default="127.0.0.1:9092", help="host:port (default: %(default)s)")
    parser.add_argument("--mended", action="store_true", help="the version with the remedy")
    parser.add_argument("--list", action="store_true", help="print the troubles' names")
    o = parser.parse_args()
    if o.list or o.trouble is None:
        print("\n".join(names))
        return
    module = f"troubles.{o.trouble}"
    stage = Stage(module)
    try:
        os.environ.update(
            SHOP_BROKER=stage.broker,
            SHOP_REDIS=f"redis://127.0.0.1:{stage.port}/1",
            SHOP_MENDED="1" if o.mended else "0",
            AUDITOR_CELERY_BOOTSTRAP_SERVERS=o.kafka,
            AUDITOR_CELERY_NAMESPACE=o.trouble + ("-mended" if o.mended else ""),
            AUDITOR_CELERY_HEARTBEAT="0.5",
            AUDITOR_CELERY_EFFECT_WAIT="5",  # for what is killed right after an effect
        )
        play = importlib.import_module(module).play
        play(stage)
    finally:
        stage.close()


if __name__ == "__main__":
    main()
