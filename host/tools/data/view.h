/* data/view.h - converts tensors of the runtime from and to views of memory. */
#ifndef DATA_VIEW_H
#define DATA_VIEW_H
#include "inlay/inlay.h"
#include "inlay/types.h" /* inlay_tensor_view */
#include <stdbool.h>

/* Creates a value with a copy of the tensor's elements. */
INLAY_NODISCARD inlay_status value_from_view(const inlay_tensor_view *view, inlay_value **out_value, inlay_diag *diag);
/* A view of a tensor; borrows from the value. False for other kinds, and for memory that the host cannot access. */
bool value_view(const inlay_value *value, inlay_tensor_view *out);
#endif
