"""Run in an environment that has eland: trains models, and writes them as files and as eland does.

`python eland_models.py FOLDER`: reads FOLDER/data.npz, writes FOLDER/NAME.json (the library's own
file) and FOLDER/NAME.eland.json (eland's trained model).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

NAMES = ["a", "b", "c", "d"]


def main(folder: Path) -> None:
    """Write every model twice."""
    import lightgbm
    import numpy as np
    import xgboost
    from eland.ml.transformers import get_model_transformer
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.tree import DecisionTreeRegressor

    given = np.load(folder / "data.npz")
    rows, labels = given["rows"], given["labels"]
    filled = np.nan_to_num(rows)
    boosted = xgboost.XGBRegressor(n_estimators=6, max_depth=3, base_score=0.0, nthread=1)
    boosted.fit(rows, labels)
    boosted.save_model(folder / "xgboost.json")
    leaves = lightgbm.LGBMRegressor(n_estimators=6, num_leaves=6, n_jobs=1, verbose=-1)
    leaves.fit(rows, labels, feature_name=NAMES)
    leaves.booster_.save_model(folder / "lightgbm.json")
    tree = DecisionTreeRegressor(max_depth=4, random_state=1).fit(filled, labels)
    forest = RandomForestRegressor(5, max_depth=3, random_state=1, n_jobs=1).fit(filled, labels)
    models: dict[str, Any] = {"xgboost": boosted, "lightgbm": leaves, "tree": tree}
    for name, model in {**models, "forest": forest}.items():
        made = get_model_transformer(model, feature_names=NAMES).transform().to_dict()
        text = json.dumps(made, default=lambda number: number.item())
        (folder / f"{name}.eland.json").write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
