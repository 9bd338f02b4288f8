#include "data/view.h"
#include "inlay/check.h"
#include <string.h>

inlay_status value_from_view(const inlay_tensor_view *view, inlay_value **out_value, inlay_diag *diag)
{
    inlay_value *value = NULL;
    inlay_status status;

    *out_value = NULL;
    if (view->dtype == INLAY_STRING)
        return inlay_value_create_strings(view->rank, view->dims, view->data, out_value, diag);
    status = inlay_value_create(view->dtype, view->rank, view->dims, &value, diag);
    INLAY_CHECK(status != INLAY_OK || view->bytes <= inlay_value_bytes(value));
    if (status == INLAY_OK && view->bytes > 0)
        memcpy(inlay_value_data(value), view->data, view->bytes);
    *out_value = value;
    return status;
}

bool value_view(const inlay_value *value, inlay_tensor_view *out)
{
    *out = (inlay_tensor_view){ 0 };
    if (inlay_value_kind(value) != INLAY_KIND_TENSOR ||
        (inlay_value_data(value) == NULL && inlay_value_count(value) > 0))
        return false;
    out->data = inlay_value_data(value);
    out->bytes = inlay_value_bytes(value);
    out->dims = inlay_value_dims(value);
    out->rank = inlay_value_rank(value);
    out->dtype = inlay_value_dtype(value);
    return true;
}
