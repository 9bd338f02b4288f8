#include "data/pb.h"
#include "inlay/check.h"
#include "base/output.h"
#include "base/wire.h"

static inlay_status finish(struct wire *wire, const char *path, inlay_diag *diag)
{
    output_file file = { .fd = -1 };
    inlay_status status = INLAY_OK;

    if (wire->failed)
        status = no_memory(diag, "to write %s", path);
    INLAY_TRY(status);
    INLAY_TRY(output_open(&file, path, diag));
    if (wire_write(wire, file.fd))
        status = output_commit(&file, NULL, diag);
    else
        status = output_failed(&file, diag);
done:
    output_drop(&file);
    wire_deinit(wire);
    return status;
}

/* Writes the fields of a TensorProto: elements first to first + count - 1 of value, with the given shape. */
static void put_tensor(struct wire *wire, const inlay_value *value, int64_t first, int64_t count, uint32_t rank,
                       const int64_t *dims)
{
    const size_t bytes = inlay_dtype_bits(inlay_value_dtype(value)) / 8;
    const char *data = inlay_value_data(value);

    INLAY_CHECK(first >= 0 && first + count <= inlay_value_count(value));
    for (uint32_t axis = 0; axis < rank; axis++)
        wire_int(wire, 1, dims[axis]);
    wire_int(wire, 2, inlay_value_dtype(value));
    if (inlay_value_dtype(value) != INLAY_STRING) {
        wire_bytes(wire, 9, data + (size_t)first * bytes, (size_t)count * bytes);
        return;
    }
    for (int64_t i = first; i < first + count; i++) {
        const inlay_str *text = (const inlay_str *)(const void *)data + i;

        wire_bytes(wire, 6, text->data, (size_t)text->bytes);
    }
}

inlay_status pb_save_map(const char *path, const inlay_value *map, inlay_diag *diag)
{
    const inlay_value *keys = inlay_value_item(map, 0), *values = inlay_value_item(map, 1);
    const int64_t one = 1;
    struct wire wire = { 0 };
    wire_mark sequence;

    if (keys == NULL || values == NULL)
        return inlay_fail(diag, INLAY_INTERNAL, "%s: a map without keys or values", path);
    wire_int(&wire, 2, inlay_value_dtype(keys));
    for (int64_t i = 0; i < inlay_value_count(keys); i++) {
        if (inlay_value_dtype(keys) == INLAY_STRING) {
            const inlay_str *text = (const inlay_str *)inlay_value_data(keys) + i;

            wire_bytes(&wire, 4, text->data, (size_t)text->bytes);
        } else {
            wire_int(&wire, 3, ((const int64_t *)inlay_value_data(keys))[i]);
        }
    }
    sequence = wire_begin(&wire, 5);
    wire_int(&wire, 2, 1); /* a sequence of tensors */
    for (int64_t i = 0; i < inlay_value_count(values); i++) {
        wire_mark tensor = wire_begin(&wire, 3);

        put_tensor(&wire, values, i, 1, 1, &one);
        wire_end(&wire, tensor);
    }
    wire_end(&wire, sequence);
    return finish(&wire, path, diag);
}

inlay_status pb_save_sparse(const char *path, const inlay_value *tensor, inlay_diag *diag)
{
    inlay_value *values = NULL, *indices = NULL;
    inlay_status status = inlay_value_to_sparse(tensor, &values, &indices, diag);
    struct wire wire = { 0 };
    wire_mark part;

    if (status != INLAY_OK)
        return status;
    part = wire_begin(&wire, 1);
    put_tensor(&wire, values, 0, inlay_value_count(values), 1, inlay_value_dims(values));
    wire_end(&wire, part);
    part = wire_begin(&wire, 2);
    put_tensor(&wire, indices, 0, inlay_value_count(indices), 2, inlay_value_dims(indices));
    wire_end(&wire, part);
    for (uint32_t axis = 0; axis < inlay_value_rank(tensor); axis++)
        wire_int(&wire, 3, inlay_value_dims(tensor)[axis]);
    inlay_value_unref(values);
    inlay_value_unref(indices);
    return finish(&wire, path, diag);
}
