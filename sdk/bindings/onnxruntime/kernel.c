/* What a kernel of a custom operator can query: its node on creation, and its inputs and outputs during a run. */
#include "custom.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

OrtTypeInfo *ort_type_of_value(const inlay_value_info *value)
{
    static const uint32_t kinds[] = { [INLAY_VALUE_TENSOR] = INLAY_KIND_TENSOR,
                                      [INLAY_VALUE_SEQUENCE] = INLAY_KIND_SEQUENCE,
                                      [INLAY_VALUE_OPTIONAL] = INLAY_KIND_OPTIONAL,
                                      [INLAY_VALUE_MAP] = INLAY_KIND_MAP };
    bool known = value->rank != INLAY_RANK_UNKNOWN;
    int64_t dims[INLAY_MAX_RANK];

    for (uint32_t d = 0; known && d < value->rank; d++)
        dims[d] = value->dims[d].kind == INLAY_DIM_FIXED ? value->dims[d].value : -1;
    return ort_type_new(value->kind < sizeof kinds / sizeof kinds[0] ? kinds[value->kind] : 0,
                        ort_shape_new(ort_type_of(value->dtype), known, known ? value->rank : 0, dims, NULL));
}

static bool copy_ports(OrtKernelInfo *info, const inlay_graph *graph, const uint32_t *values, size_t count,
                       size_t first)
{
    for (size_t i = 0; i < count; i++) {
        const inlay_value_info *value = inlay_graph_value(graph, values[i]);

        info->names[first + i] = strdup(value != NULL ? value->name.data : "");
        if (value != NULL)
            info->types[first + i] = ort_type_of_value(value);
        if (info->names[first + i] == NULL || (value != NULL && info->types[first + i] == NULL))
            return false;
    }
    return true;
}

OrtKernelInfo *ort_kernel_info_new(const inlay_graph *graph, const inlay_node_info *node,
                                   const OrtKeyValuePairs *entries)
{
    OrtKernelInfo *info = calloc(1, sizeof *info);
    size_t ports = (size_t)node->input_count + node->output_count;
    bool ok;

    if (info == NULL)
        return NULL;
    info->references = 1;
    info->since_version = node->since_version;
    info->entries = entries;
    info->input_count = node->input_count;
    info->output_count = node->output_count;
    info->name = strdup(node->name.data);
    info->domain = strdup(node->domain.data);
    info->op_type = strdup(node->op_type.data);
    info->attrs = calloc((size_t)node->attr_count + 1, sizeof(OrtOpAttr *));
    info->names = calloc(ports + 1, sizeof(char *));
    info->types = calloc(ports + 1, sizeof(OrtTypeInfo *));
    info->constants = calloc((size_t)node->input_count + 1, sizeof(OrtValue *));
    ok = info->name != NULL && info->domain != NULL && info->op_type != NULL && info->attrs != NULL &&
         info->names != NULL && info->types != NULL && info->constants != NULL &&
         copy_ports(info, graph, node->inputs, node->input_count, 0) &&
         copy_ports(info, graph, node->outputs, node->output_count, node->input_count);
    for (uint32_t i = 0; ok && i < node->attr_count; i++) {
        const inlay_attr_info *attribute = INLAY_AT(inlay_attr_info, node->attrs, node->attr_stride, i);

        info->attrs[info->attr_count] = ort_attr_copy(attribute);
        ok = info->attrs[info->attr_count++] != NULL;
    }
    if (!ok) {
        ort_ReleaseKernelInfo(info);
        return NULL;
    }
    return info;
}

OrtStatus *ort_CopyKernelInfo(const OrtKernelInfo *info, OrtKernelInfo **info_copy)
{
    ORT_NEED(info);
    ORT_NEED(info_copy);
    *info_copy = (OrtKernelInfo *)(uintptr_t)info; /* immutable */
    (void)__atomic_add_fetch(&(*info_copy)->references, 1, __ATOMIC_RELAXED);
    return NULL;
}

void ort_ReleaseKernelInfo(OrtKernelInfo *info)
{
    if (info == NULL)
        return;
    INLAY_CHECK(__atomic_load_n(&info->references, __ATOMIC_RELAXED) > 0);
    if (__atomic_sub_fetch(&info->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    for (size_t i = 0; i < info->attr_count; i++)
        ort_ReleaseOpAttr(info->attrs[i]);
    for (size_t i = 0; i < info->input_count + info->output_count; i++) {
        if (info->names != NULL)
            free(info->names[i]);
        if (info->types != NULL)
            ort_ReleaseTypeInfo(info->types[i]);
    }
    for (size_t i = 0; info->constants != NULL && i < info->input_count; i++)
        ort_ReleaseValue(info->constants[i]);
    free(info->constants);
    free(info->attrs);
    free(info->names);
    free(info->types);
    free(info->name);
    free(info->domain);
    free(info->op_type);
    free(info);
}

static OrtStatus *find_attr(const OrtKernelInfo *info, const char *name, OrtOpAttrType type, const OrtOpAttr **out)
{
    ORT_NEED(info);
    ORT_NEED(name);
    for (size_t i = 0; i < info->attr_count; i++) {
        if (strcmp(info->attrs[i]->name, name) != 0)
            continue;
        if (info->attrs[i]->type != type)
            return ort_fail(ORT_FAIL, "Attribute: %s expected to be of type: %d but is of type: %d", name, type,
                            info->attrs[i]->type);
        *out = info->attrs[i];
        return NULL;
    }
    return ort_fail(ORT_FAIL, "No attribute with name:'%s'is defined.", name);
}

OrtStatus *ort_KernelInfoGetAttribute_float(const OrtKernelInfo *info, const char *name, float *out)
{
    const OrtOpAttr *attribute;

    ORT_NEED(out);
    ORT_TRY(find_attr(info, name, ORT_OP_ATTR_FLOAT, &attribute));
    *out = attribute->floats[0];
    return NULL;
}

OrtStatus *ort_KernelInfoGetAttribute_int64(const OrtKernelInfo *info, const char *name, int64_t *out)
{
    const OrtOpAttr *attribute;

    ORT_NEED(out);
    ORT_TRY(find_attr(info, name, ORT_OP_ATTR_INT, &attribute));
    *out = attribute->ints[0];
    return NULL;
}

OrtStatus *ort_KernelInfoGetAttribute_string(const OrtKernelInfo *info, const char *name, char *out, size_t *size)
{
    const OrtOpAttr *attribute;

    ORT_NEED(size);
    ORT_TRY(find_attr(info, name, ORT_OP_ATTR_STRING, &attribute));
    return ort_fill_text(attribute->strings[0].data, out, size);
}

/* Copies the elements and sets *size to their number; out NULL only requests the number. */
static OrtStatus *fill_array(const OrtOpAttr *attribute, const void *elements, size_t element_bytes, void *out,
                             size_t *size)
{
    size_t capacity = *size;

    *size = attribute->count;
    if (out == NULL)
        return NULL;
    if (capacity < attribute->count)
        return ort_fail(ORT_INVALID_ARGUMENT,
                        "Result buffer is not large enough: it holds %zu elements, attribute %s has %zu", capacity,
                        attribute->name, attribute->count);
    if (attribute->count > 0)
        memcpy(out, elements, attribute->count * element_bytes);
    return NULL;
}

OrtStatus *ort_KernelInfoGetAttributeArray_float(const OrtKernelInfo *info, const char *name, float *out, size_t *size)
{
    const OrtOpAttr *attribute;

    ORT_NEED(size);
    ORT_TRY(find_attr(info, name, ORT_OP_ATTR_FLOATS, &attribute));
    return fill_array(attribute, attribute->floats, sizeof *out, out, size);
}

OrtStatus *ort_KernelInfoGetAttributeArray_int64(const OrtKernelInfo *info, const char *name, int64_t *out,
                                                 size_t *size)
{
    const OrtOpAttr *attribute;

    ORT_NEED(size);
    ORT_TRY(find_attr(info, name, ORT_OP_ATTR_INTS, &attribute));
    return fill_array(attribute, attribute->ints, sizeof *out, out, size);
}

OrtStatus *ort_KernelInfoGetAttributeArray_string(const OrtKernelInfo *info, const char *name, OrtAllocator *allocator,
                                                  char ***out, size_t *size)
{
    const OrtOpAttr *attribute;

    ORT_NEED(size);
    if (out != NULL)
        *out = NULL;
    *size = 0;
    ORT_TRY(find_attr(info, name, ORT_OP_ATTR_STRINGS, &attribute));
    *size = attribute->count;
    if (attribute->count == 0 || out == NULL) /* without out, only the number is requested */
        return NULL;
    ORT_NEED(allocator);
    *out = allocator->Alloc(allocator, attribute->count * sizeof **out);
    if (*out == NULL)
        return ort_no_memory();
    for (size_t i = 0; i < attribute->count; i++) {
        OrtStatus *failed = ort_give_text(allocator, attribute->strings[i].data, &(*out)[i]);

        if (failed == NULL)
            continue;
        while (i-- > 0)
            allocator->Free(allocator, (*out)[i]);
        allocator->Free(allocator, *out);
        *out = NULL;
        *size = 0;
        return failed;
    }
    return NULL;
}

OrtStatus *ort_KernelInfoGetAttribute_tensor(const OrtKernelInfo *info, const char *name, OrtAllocator *allocator,
                                             OrtValue **out)
{
    const OrtOpAttr *attribute;

    (void)allocator; /* shared, not copied */
    ORT_NEED(out);
    *out = NULL;
    ORT_TRY(find_attr(info, name, ORT_OP_ATTR_TENSOR, &attribute));
    *out = ort_value_ref(attribute->tensor);
    return NULL;
}

ORT_GETTER(ort_KernelInfo_GetInputCount, const OrtKernelInfo *, info, size_t, out, info->input_count)
ORT_GETTER(ort_KernelInfo_GetOutputCount, const OrtKernelInfo *, info, size_t, out, info->output_count)

static OrtStatus *check_port(size_t index, size_t count, const char *what)
{
    return index < count
               ? NULL
               : ort_fail(ORT_INVALID_ARGUMENT, "%s index %zu is out of bounds: the node has %zu", what, index, count);
}

OrtStatus *ort_KernelInfo_GetInputName(const OrtKernelInfo *info, size_t index, char *out, size_t *size)
{
    ORT_NEED(info);
    ORT_NEED(size);
    ORT_TRY(check_port(index, info->input_count, "input"));
    return ort_fill_text(info->names[index], out, size);
}

OrtStatus *ort_KernelInfo_GetOutputName(const OrtKernelInfo *info, size_t index, char *out, size_t *size)
{
    ORT_NEED(info);
    ORT_NEED(size);
    ORT_TRY(check_port(index, info->output_count, "output"));
    return ort_fill_text(info->names[info->input_count + index], out, size);
}

static OrtStatus *give_port_type(const OrtTypeInfo *type, OrtTypeInfo **out)
{
    *out = NULL;
    if (type == NULL)
        return ort_fail(ORT_INVALID_ARGUMENT, "the node omits this input or output");
    *out = ort_type_copy(type);
    return *out != NULL ? NULL : ort_no_memory();
}

OrtStatus *ort_KernelInfo_GetInputTypeInfo(const OrtKernelInfo *info, size_t index, OrtTypeInfo **type_info)
{
    ORT_NEED(info);
    ORT_NEED(type_info);
    ORT_TRY(check_port(index, info->input_count, "input"));
    return give_port_type(info->types[index], type_info);
}

OrtStatus *ort_KernelInfo_GetOutputTypeInfo(const OrtKernelInfo *info, size_t index, OrtTypeInfo **type_info)
{
    ORT_NEED(info);
    ORT_NEED(type_info);
    ORT_TRY(check_port(index, info->output_count, "output"));
    return give_port_type(info->types[info->input_count + index], type_info);
}

OrtStatus *ort_KernelInfoGetConstantInput_tensor(const OrtKernelInfo *info, size_t index, int *is_constant,
                                                 const OrtValue **out)
{
    ORT_NEED(info);
    ORT_NEED(is_constant);
    ORT_NEED(out);
    ORT_TRY(check_port(index, info->input_count, "input"));
    *out = info->constants[index];
    *is_constant = *out != NULL;
    return NULL;
}

OrtStatus *ort_KernelInfo_GetNodeName(const OrtKernelInfo *info, char *out, size_t *size)
{
    ORT_NEED(info);
    ORT_NEED(size);
    return ort_fill_text(info->name, out, size);
}

OrtStatus *ort_KernelInfo_GetOperatorDomain(const OrtKernelInfo *info, char *out, size_t *size)
{
    ORT_NEED(info);
    ORT_NEED(size);
    return ort_fill_text(info->domain, out, size);
}

OrtStatus *ort_KernelInfo_GetOperatorType(const OrtKernelInfo *info, char *out, size_t *size)
{
    ORT_NEED(info);
    ORT_NEED(size);
    return ort_fill_text(info->op_type, out, size);
}

ORT_GETTER(ort_KernelInfo_GetOperatorSinceVersion, const OrtKernelInfo *, info, int, since_version,
           (int)info->since_version)

OrtStatus *ort_KernelInfo_GetConfigEntries(const OrtKernelInfo *info, OrtKeyValuePairs **out)
{
    ORT_NEED(info);
    ORT_NEED(out);
    *out = calloc(1, sizeof **out);
    if (*out != NULL && ort_pairs_copy(*out, info->entries))
        return NULL;
    ort_ReleaseKeyValuePairs(*out);
    *out = NULL;
    return ort_no_memory();
}

ORT_GETTER(ort_KernelInfo_GetLogger, const OrtKernelInfo *, info, const OrtLogger *, logger, ort_default_logger())

OrtStatus *ort_KernelInfoGetAllocator(const OrtKernelInfo *info, OrtMemType mem_type, OrtAllocator **out)
{
    (void)mem_type;
    ORT_NEED(info);
    ORT_NEED(out);
    *out = ort_allocator();
    return NULL;
}

ORT_GETTER(ort_KernelContext_GetInputCount, const OrtKernelContext *, context, size_t, out, context->info->input_count)
ORT_GETTER(ort_KernelContext_GetOutputCount, const OrtKernelContext *, context, size_t, out,
           context->info->output_count)

OrtStatus *ort_KernelContext_GetInput(const OrtKernelContext *context, size_t index, const OrtValue **out)
{
    ORT_NEED(context);
    ORT_NEED(out);
    *out = NULL;
    if (index < context->info->input_count) /* past the last input, as for an omitted one: NULL */
        *out = context->inputs[index];
    return NULL;
}

/* The memory of an output of the run: that which the host planned for it, if its shape was known before the run, or
 * memory that the host allocates now. */
static OrtStatus *output_memory(const OrtKernelContext *context, size_t index, const int64_t *dims, size_t rank,
                                inlay_buffer *out)
{
    const inlay_tensor_arg *planned =
        INLAY_AT(inlay_tensor_arg, context->args->outputs, context->args->arg_stride, context->output_at[index]);
    const inlay_output_request request = {
        .struct_size = sizeof request, .dims = dims, .output = context->output_at[index], .rank = (uint32_t)rank
    };

    if (planned->buffer.handle != 0) {
        if (planned->rank != rank || (rank > 0 && memcmp(planned->dims, dims, rank * sizeof *dims) != 0))
            return ort_fail(ORT_INVALID_ARGUMENT, "output %zu of %s has another shape than its model states", index,
                            context->info->name);
        *out = planned->buffer;
        return NULL;
    }
    if (context->host->output_alloc(context->host->ctx, context->args->run, &request, out) != INLAY_OK)
        return ort_fail(ORT_RUNTIME_EXCEPTION, "no memory for output %zu of %s", index, context->info->name);
    return NULL;
}

/* Creates an output in memory of the run if it has a consumer, otherwise in separate memory. Strings are copied when
 * the kernel returns. */
static OrtStatus *make_output(const OrtKernelContext *context, size_t index, const int64_t *dims, size_t rank,
                              OrtValue **out)
{
    inlay_dtype dtype = context->output_types[index];
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value = NULL;
    inlay_status status;
    inlay_buffer buffer;
    size_t count;

    INLAY_CHECK(dtype < INLAY_DTYPE_COUNT);
    ORT_TRY(ort_check_shape(dims, rank, &count));
    if (dtype == INLAY_STRING)
        return ort_strings_new(dims, rank, out);
    if (context->output_at[index] == INLAY_NONE) {
        status = inlay_value_create(dtype, (uint32_t)rank, dims, &value, &diag);
        return status == INLAY_OK ? ort_value_wrap(value, out) : ort_from(status, &diag);
    }
    ORT_TRY(output_memory(context, index, dims, rank, &buffer));
    status = inlay_value_borrow(dtype, (uint32_t)rank, dims, inlay_buffer_host(&buffer), buffer.bytes, &value, &diag);
    if (status != INLAY_OK)
        return ort_from(status, &diag);
    ORT_TRY(ort_value_wrap(value, out));
    if (buffer.domain != INLAY_DOMAIN_HOST)
        (*out)->memory = context->memory;
    return NULL;
}

/* Whether a kernel that computes in the memory of a device writes an output there that inlay has in host memory. */
static bool is_placed(const OrtKernelContext *context, size_t index)
{
    return context->placed != NULL && !context->host_outputs[index] &&
           context->outputs[index]->memory == &ort_cpu_memory;
}

OrtStatus *ort_KernelContext_GetOutput(OrtKernelContext *context, size_t index, const int64_t *dim_values,
                                       size_t dim_count, OrtValue **out)
{
    ORT_NEED(context);
    ORT_NEED(out);
    *out = NULL;
    ORT_TRY(check_port(index, context->info->output_count, "output"));
    if (context->info->types[context->info->input_count + index] == NULL)
        return NULL; /* the node omits this output */
    if (context->outputs[index] == NULL)
        ORT_TRY(make_output(context, index, dim_values, dim_count, &context->outputs[index]));
    if (is_placed(context, index) && context->placed[index] == NULL)
        ORT_TRY(ort_CreateTensorAsOrtValue(context->allocator, dim_values, dim_count,
                                           ort_type_of(context->output_types[index]), &context->placed[index]));
    *out = is_placed(context, index) ? context->placed[index] : context->outputs[index];
    return NULL;
}

OrtStatus *ort_KernelContext_GetPreallocatedOutput(const OrtKernelContext *context, size_t output_index,
                                                   OrtValue **output)
{
    ORT_NEED(context);
    ORT_NEED(output);
    *output = NULL; /* GetOutput allocates the memory */
    return check_port(output_index, context->info->output_count, "output");
}

ORT_GETTER(ort_KernelContext_GetLogger, const OrtKernelContext *, context, const OrtLogger *, logger,
           ort_default_logger())

OrtStatus *ort_KernelContext_GetAllocator(const OrtKernelContext *context, const OrtMemoryInfo *mem_info,
                                          OrtAllocator **out)
{
    ORT_NEED(context);
    ORT_NEED(mem_info);
    ORT_NEED(out);
    *out = context->allocator != NULL && mem_info->device_type != 0 ? context->allocator : ort_allocator();
    return NULL;
}

OrtStatus *ort_KernelContext_GetScratchBuffer(const OrtKernelContext *context, const OrtMemoryInfo *mem_info,
                                              size_t count_or_bytes, void **out)
{
    OrtKernelContext *kernel_context = (OrtKernelContext *)(uintptr_t)context;
    ort_scratch *scratch;

    ORT_NEED(context);
    ORT_NEED(mem_info);
    ORT_NEED(out);
    *out = NULL;
    scratch = count_or_bytes <= PTRDIFF_MAX - sizeof *scratch ? malloc(sizeof *scratch + count_or_bytes) : NULL;
    if (scratch == NULL)
        return ort_no_memory();
    scratch->next = kernel_context->scratch;
    kernel_context->scratch = scratch;
    *out = scratch->memory;
    return NULL;
}

struct loop {
    void (*fn)(void *, size_t);
    void *user;
};

static inlay_status run_loop(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const struct loop *loop = user;

    (void)worker;
    for (int64_t i = begin; i < end; i++)
        loop->fn(loop->user, (size_t)i);
    return INLAY_OK;
}

OrtStatus *ort_KernelContext_ParallelFor(const OrtKernelContext *context, void (*fn)(void *, size_t), size_t total,
                                         size_t num_batch, void *usr_data)
{
    struct loop loop = { fn, usr_data };
    int64_t grain = num_batch > 0 ? (int64_t)((total + num_batch - 1) / num_batch) : 1;
    inlay_status status;

    ORT_NEED(context);
    if (total == 0)
        return NULL;
    ORT_NEED(fn);
    status = context->host->parallel_for(context->host->ctx, context->args->run, (int64_t)total, grain > 0 ? grain : 1,
                                         run_loop, &loop);
    return status == INLAY_OK ? NULL : ort_fail(ORT_FAIL, "the run was stopped");
}

/* Kernels on the CPU have no stream; so it is in ONNX Runtime. */
ORT_GETTER(ort_KernelContext_GetGPUComputeStream, const OrtKernelContext *, context, void *, out,
           context->stream_handle)
ORT_GETTER(ort_KernelContext_GetSyncStream, const OrtKernelContext *, context, OrtSyncStream *, out, context->stream)
