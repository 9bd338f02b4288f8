/* onnx/non_max_suppression.c - choice of boxes by score and overlap. */
#include "schema.h"

static const op_row rows[] = {
    { "NonMaxSuppression", 10, 0,
      "boxes:float, scores:float, max_output_boxes_per_class?:int64, iou_threshold?:float, score_threshold?:float "
      "-> selected_indices:int64; ; center_point_box:i=0",
      NULL },
    { "NonMaxSuppression", 11, 0,
      "boxes:float, scores:float, max_output_boxes_per_class?:int64, iou_threshold?:float, score_threshold?:float "
      "-> selected_indices:int64; ; center_point_box:i=0",
      NULL },
};

const op_table op_onnx_non_max_suppression = { "ai.onnx", rows, OP_COUNT(rows) };
