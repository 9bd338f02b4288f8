/* LoRA adapters: files in ONNX Runtime's adapter format, whose parameters become inputs of a run.
 *
 * A file is a FlatBuffer with identifier "TORT". Its root table has format_version, adapter_version, model_version and
 * parameters, a vector of tables with name, dims (int64), data_type (as in ONNX) and raw_data. Every offset is checked
 * before it is followed. */
#include "ort.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

/* Fields of the tables, in order. */
enum { ADAPTER_FORMAT_VERSION = 0, ADAPTER_PARAMETERS = 3 };
enum { PARAMETER_NAME = 0, PARAMETER_DIMS = 1, PARAMETER_TYPE = 2, PARAMETER_DATA = 3 };
enum { FORMAT_VERSION = 1, MOST_RANK = 32 };

struct OrtLoraAdapter {
    ort_parameter *parameters; /* [count] */
    size_t count;
};

struct flat {
    const unsigned char *data; /* [bytes] */
    uint64_t bytes;
};

static bool read_u32(const struct flat *flat, uint64_t at, uint32_t *out)
{
    if (at > flat->bytes || flat->bytes - at < sizeof *out)
        return false;
    memcpy(out, flat->data + at, sizeof *out);
    return true;
}

/* Follows the offset stored at `at`, which counts from there. */
static bool follow(const struct flat *flat, uint64_t at, uint64_t *out)
{
    uint32_t offset;

    if (!read_u32(flat, at, &offset) || offset == 0 || offset > flat->bytes - at)
        return false;
    *out = at + offset;
    return true;
}

/* The position of a field of the table at `table`. false: malformed, or the field is absent. */
static bool find_field(const struct flat *flat, uint64_t table, uint32_t field, uint64_t *out)
{
    uint16_t vtable_bytes, offset;
    int64_t vtable;
    uint32_t back;

    if (!read_u32(flat, table, &back))
        return false;
    vtable = (int64_t)table - (int32_t)back;
    if (vtable < 0 || (uint64_t)vtable + 4 > flat->bytes)
        return false;
    memcpy(&vtable_bytes, flat->data + vtable, sizeof vtable_bytes);
    if (vtable_bytes < 6 + 2 * field || (uint64_t)vtable + vtable_bytes > flat->bytes)
        return false;
    memcpy(&offset, flat->data + vtable + 4 + 2 * field, sizeof offset);
    *out = table + offset;
    return offset != 0 && *out < flat->bytes;
}

/* The elements of a vector or string that a field refers to. */
static bool find_vector(const struct flat *flat, uint64_t table, uint32_t field, size_t element, uint64_t *out_at,
                        uint32_t *out_count)
{
    uint64_t at;

    if (!find_field(flat, table, field, &at) || !follow(flat, at, &at) || !read_u32(flat, at, out_count))
        return false;
    *out_at = at + sizeof *out_count;
    return *out_count <= (flat->bytes - *out_at) / element;
}

static OrtStatus *malformed(void)
{
    return ort_fail(ORT_FAIL, "the adapter is not in ONNX Runtime's adapter format, or is damaged");
}

/* Whether the elements of a tensor take exactly this number of bytes; checked before memory is allocated for them. */
static bool fits(inlay_dtype dtype, size_t count, uint32_t bytes)
{
    const uint64_t bits = inlay_dtype_bits(dtype);

    return count <= 8 * (uint64_t)bytes && (count * bits + 7) / 8 == bytes;
}

static OrtStatus *read_parameter(const struct flat *flat, uint64_t table, ort_parameter *out)
{
    uint32_t name_bytes, rank, type, bytes;
    inlay_diag diag = INLAY_DIAG_INIT;
    uint64_t name, dims_at, type_at, data;
    int64_t dims[MOST_RANK];
    inlay_value *value;
    inlay_dtype dtype;
    size_t count;

    if (!find_vector(flat, table, PARAMETER_NAME, 1, &name, &name_bytes) ||
        !find_vector(flat, table, PARAMETER_DIMS, sizeof(int64_t), &dims_at, &rank) || rank > MOST_RANK ||
        !find_field(flat, table, PARAMETER_TYPE, &type_at) || !read_u32(flat, type_at, &type) ||
        !find_vector(flat, table, PARAMETER_DATA, 1, &data, &bytes))
        return malformed();
    memcpy(dims, flat->data + dims_at, rank * sizeof *dims);
    out->name = strndup((const char *)flat->data + name, name_bytes);
    if (out->name == NULL)
        return ort_no_memory();
    ORT_TRY(ort_check_shape(dims, rank, &count));
    dtype = ort_dtype((ONNXTensorElementDataType)type);
    if (dtype == INLAY_UNDEFINED || dtype == INLAY_STRING)
        return ort_fail(ORT_FAIL, "parameter %s of the adapter has element type %u", out->name, type);
    if (!fits(dtype, count, bytes))
        return ort_fail(ORT_FAIL, "parameter %s of the adapter has %u bytes, which do not fit its shape", out->name,
                        bytes);
    ORT_TRY(ort_from(inlay_value_create(dtype, rank, dims, &value, &diag), &diag));
    if (bytes > 0)
        memcpy(inlay_value_data(value), flat->data + data, bytes);
    return ort_value_wrap(value, &out->value);
}

static OrtStatus *read_adapter(const struct flat *flat, OrtLoraAdapter *adapter)
{
    uint64_t root, version_at, list;
    uint32_t count, version = 0;

    if (flat->bytes < 8 || memcmp(flat->data + 4, "TORT", 4) != 0 || !follow(flat, 0, &root))
        return malformed();
    if (find_field(flat, root, ADAPTER_FORMAT_VERSION, &version_at))
        (void)read_u32(flat, version_at, &version);
    if (version != FORMAT_VERSION)
        return ort_fail(ORT_FAIL, "the adapter has format version %u; this library reads version %d", version,
                        FORMAT_VERSION);
    if (!find_vector(flat, root, ADAPTER_PARAMETERS, sizeof(uint32_t), &list, &count))
        return malformed();
    adapter->parameters = calloc((size_t)count + 1, sizeof *adapter->parameters);
    if (adapter->parameters == NULL)
        return ort_no_memory();
    for (uint32_t i = 0; i < count; i++) {
        uint64_t table;

        if (!follow(flat, list + (uint64_t)i * sizeof(uint32_t), &table))
            return malformed();
        adapter->count++; /* before it is read, so that a part of it is released */
        ORT_TRY(read_parameter(flat, table, &adapter->parameters[i]));
    }
    return NULL;
}

void ort_ReleaseLoraAdapter(OrtLoraAdapter *input)
{
    if (input == NULL)
        return;
    for (size_t i = 0; i < input->count; i++) {
        free(input->parameters[i].name);
        ort_ReleaseValue(input->parameters[i].value);
    }
    free(input->parameters);
    free(input);
}

/* The allocator would hold copies on a device; all memory is the host's. */
OrtStatus *ort_CreateLoraAdapterFromArray(const void *bytes, size_t num_bytes, OrtAllocator *allocator,
                                          OrtLoraAdapter **out)
{
    const struct flat flat = { .data = bytes, .bytes = num_bytes };
    OrtLoraAdapter *adapter;
    OrtStatus *failed;

    (void)allocator;
    ORT_NEED(bytes);
    ORT_NEED(out);
    *out = NULL;
    adapter = calloc(1, sizeof *adapter);
    if (adapter == NULL)
        return ort_no_memory();
    failed = read_adapter(&flat, adapter);
    if (failed != NULL)
        ort_ReleaseLoraAdapter(adapter);
    else
        *out = adapter;
    return failed;
}

OrtStatus *ort_CreateLoraAdapter(const char *adapter_file_path, OrtAllocator *allocator, OrtLoraAdapter **out)
{
    OrtStatus *failed;
    size_t bytes;
    void *data;

    ORT_NEED(adapter_file_path);
    ORT_NEED(out);
    *out = NULL;
    failed = ort_read_file(adapter_file_path, &data, &bytes);
    if (ort_GetErrorCode(failed) == ORT_NO_SUCHFILE) {
        ort_ReleaseStatus(failed);
        return ort_fail(ORT_INVALID_ARGUMENT, "%s is not a file of an adapter", adapter_file_path);
    }
    if (failed != NULL)
        return failed;
    failed = ort_CreateLoraAdapterFromArray(data, bytes, allocator, out);
    free(data);
    return failed;
}

OrtStatus *ort_RunOptionsAddActiveLoraAdapter(OrtRunOptions *options, const OrtLoraAdapter *adapter)
{
    ORT_NEED(options);
    ORT_NEED(adapter);
    if (!ORT_GROW(options->adapters, options->adapter_count))
        return ort_no_memory();
    options->adapters[options->adapter_count++] = adapter;
    return NULL;
}

const ort_parameter *ort_adapter_parameters(const OrtLoraAdapter *adapter, size_t *out_count)
{
    *out_count = adapter->count;
    return adapter->parameters;
}
