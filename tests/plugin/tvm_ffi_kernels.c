/* A library with the C interface of TVM-FFI, as far as samples/provider_tvm_ffi calls it, with its own stand-ins of the
 * functions of libtvm_ffi. */
#include "abi.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

static _Thread_local ffi_error raised;
static _Thread_local ffi_error *last;

__attribute__((visibility("default"))) void TVMFFIErrorMoveFromRaised(ffi_error **out)
{
    *out = last;
    last = NULL;
}

__attribute__((visibility("default"))) int TVMFFIObjectDecRef(void *object)
{
    return object == &raised ? 0 : -1;
}

static int raise_error(const char *message)
{
    raised.message.data = message;
    raised.message.bytes = strlen(message);
    last = &raised;
    return -1;
}

/* The tensors of an elementwise function; false: they are not those that it takes. */
static int read_pair(const ffi_any *args, int32_t count, const float **x, float **y, int64_t *elements)
{
    const ffi_tensor *in, *out;

    if (count != 2 || args[0].kind != FFI_TENSOR || args[1].kind != FFI_TENSOR)
        return raise_error("expected two tensors");
    in = args[0].pointer;
    out = args[1].pointer;
    if (in->device_type != FFI_CPU || in->type_code != FFI_FLOATS || in->type_bits != 32 || in->type_lanes != 1 ||
        in->rank != out->rank || in->byte_offset != 0)
        return raise_error("expected float on the CPU");
    *elements = 1;
    for (int32_t axis = in->rank; axis-- > 0;) {
        if (in->dims[axis] != out->dims[axis] || in->strides[axis] != *elements)
            return raise_error("expected dense tensors of one shape");
        *elements *= in->dims[axis];
    }
    *x = in->data;
    *y = out->data;
    return in->rank == 7 ? raise_error("seven axes are too many") : 0;
}

__attribute__((visibility("default"))) int __tvm_ffi_softsign(void *self, const ffi_any *args, int32_t count,
                                                              ffi_any *result)
{
    int64_t elements = 0;
    const float *x = NULL;
    float *y = NULL;
    const int code = read_pair(args, count, &x, &y, &elements);

    (void)self, (void)result;
    for (int64_t i = 0; code == 0 && i < elements; i++)
        y[i] = x[i] / (1 + fabsf(x[i]));
    return code;
}
