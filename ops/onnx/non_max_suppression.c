/* onnx/non_max_suppression.c - selection of boxes by score and overlap. */
#include "schema.h"

/* The output has rows of [batch, class, box]; the number of rows depends on the data. */
static inlay_status infer_non_max_suppression(op_infer *infer)
{
    const inlay_dim dims[2] = { dim_unknown(), dim_fixed(3) };

    return infer_set_shape(infer, 0, 2, dims);
}

static const op_row onnx_non_max_suppression_rows[] = {
    { "NonMaxSuppression", 10, 0,
      "boxes:float, scores:float, max_output_boxes_per_class?:int64, iou_threshold?:float, score_threshold?:float "
      "-> selected_indices:int64; ; center_point_box:i=0",
      infer_non_max_suppression },
    { "NonMaxSuppression", 11, 0,
      "boxes:float, scores:float, max_output_boxes_per_class?:int64, iou_threshold?:float, score_threshold?:float "
      "-> selected_indices:int64; ; center_point_box:i=0",
      infer_non_max_suppression },
};

const op_table op_onnx_non_max_suppression = { "ai.onnx", onnx_non_max_suppression_rows,
                                               OP_COUNT(onnx_non_max_suppression_rows) };
