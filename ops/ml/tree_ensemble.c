/* ml/tree_ensemble.c - decision trees. */
#include "ml.h"

static inlay_status infer_tree_classifier(op_infer *infer)
{
    return ml_infer_classifier(infer, "classlabels_int64s", true);
}

static inlay_status infer_tree_regressor(op_infer *infer)
{
    return ml_infer_columns(infer, 0, dim_fixed(infer_attr_int(infer, "n_targets", 1)));
}

static const op_row ml_tree_ensemble_rows[] = {
    { "TreeEnsemble", 5, 0,
      "X:T -> Y:T; T=@float; aggregate_function:i=1, leaf_targetids:is!, leaf_weights:t!, membership_values:t, "
      "n_targets:i, nodes_falseleafs:is!, nodes_falsenodeids:is!, nodes_featureids:is!, nodes_hitrates:t, "
      "nodes_missing_value_tracks_true:is, nodes_modes:t!, nodes_splits:t!, nodes_trueleafs:is!, "
      "nodes_truenodeids:is!, post_transform:i=0, tree_roots:is!",
      infer_tree_regressor },

    { "TreeEnsembleClassifier", 1, 0,
      "X:T1 -> Y:T2, Z:float; T1=int32|int64|float|double, T2=int64|string; base_values:fs, class_ids:is, "
      "class_nodeids:is, class_treeids:is, class_weights:fs, classlabels_int64s:is, classlabels_strings:ss, "
      "nodes_falsenodeids:is, nodes_featureids:is, nodes_hitrates:fs, nodes_missing_value_tracks_true:is, "
      "nodes_modes:ss, nodes_nodeids:is, nodes_treeids:is, nodes_truenodeids:is, nodes_values:fs, "
      "post_transform:s='NONE'",
      infer_tree_classifier },
    { "TreeEnsembleClassifier", 3, 0,
      "X:T1 -> Y:T2, Z:float; T1=int32|int64|float|double, T2=int64|string; base_values:fs, base_values_as_tensor:t, "
      "class_ids:is, class_nodeids:is, class_treeids:is, class_weights:fs, class_weights_as_tensor:t, "
      "classlabels_int64s:is, classlabels_strings:ss, nodes_falsenodeids:is, nodes_featureids:is, nodes_hitrates:fs, "
      "nodes_hitrates_as_tensor:t, nodes_missing_value_tracks_true:is, nodes_modes:ss, nodes_nodeids:is, "
      "nodes_treeids:is, nodes_truenodeids:is, nodes_values:fs, nodes_values_as_tensor:t, post_transform:s='NONE'",
      infer_tree_classifier },
    { "TreeEnsembleClassifier", 5, OP_DEPRECATED,
      "X:T1 -> Y:T2, Z:float; T1=int32|int64|float|double, T2=int64|string; base_values:fs, base_values_as_tensor:t, "
      "class_ids:is, class_nodeids:is, class_treeids:is, class_weights:fs, class_weights_as_tensor:t, "
      "classlabels_int64s:is, classlabels_strings:ss, nodes_falsenodeids:is, nodes_featureids:is, nodes_hitrates:fs, "
      "nodes_hitrates_as_tensor:t, nodes_missing_value_tracks_true:is, nodes_modes:ss, nodes_nodeids:is, "
      "nodes_treeids:is, nodes_truenodeids:is, nodes_values:fs, nodes_values_as_tensor:t, post_transform:s='NONE'",
      infer_tree_classifier },

    { "TreeEnsembleRegressor", 1, 0,
      "X:T -> Y:float; T=int32|int64|float|double; aggregate_function:s='SUM', base_values:fs, n_targets:i, "
      "nodes_falsenodeids:is, nodes_featureids:is, nodes_hitrates:fs, nodes_missing_value_tracks_true:is, "
      "nodes_modes:ss, nodes_nodeids:is, nodes_treeids:is, nodes_truenodeids:is, nodes_values:fs, "
      "post_transform:s='NONE', target_ids:is, target_nodeids:is, target_treeids:is, target_weights:fs",
      infer_tree_regressor },
    { "TreeEnsembleRegressor", 3, 0,
      "X:T -> Y:float; T=int32|int64|float|double; aggregate_function:s='SUM', base_values:fs, "
      "base_values_as_tensor:t, n_targets:i, nodes_falsenodeids:is, nodes_featureids:is, nodes_hitrates:fs, "
      "nodes_hitrates_as_tensor:t, nodes_missing_value_tracks_true:is, nodes_modes:ss, nodes_nodeids:is, "
      "nodes_treeids:is, nodes_truenodeids:is, nodes_values:fs, nodes_values_as_tensor:t, post_transform:s='NONE', "
      "target_ids:is, target_nodeids:is, target_treeids:is, target_weights:fs, target_weights_as_tensor:t",
      infer_tree_regressor },
    { "TreeEnsembleRegressor", 5, OP_DEPRECATED,
      "X:T -> Y:float; T=int32|int64|float|double; aggregate_function:s='SUM', base_values:fs, "
      "base_values_as_tensor:t, n_targets:i, nodes_falsenodeids:is, nodes_featureids:is, nodes_hitrates:fs, "
      "nodes_hitrates_as_tensor:t, nodes_missing_value_tracks_true:is, nodes_modes:ss, nodes_nodeids:is, "
      "nodes_treeids:is, nodes_truenodeids:is, nodes_values:fs, nodes_values_as_tensor:t, post_transform:s='NONE', "
      "target_ids:is, target_nodeids:is, target_treeids:is, target_weights:fs, target_weights_as_tensor:t",
      infer_tree_regressor },
};

const op_table op_ml_tree_ensemble = { "ai.onnx.ml", ml_tree_ensemble_rows, OP_COUNT(ml_tree_ensemble_rows) };
