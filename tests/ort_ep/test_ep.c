/* The library of an execution provider, written against the ABI that ep_types.h describes, as a vendor would write it.
 * It fuses Mul and Add of floats with equal shapes to programs, and its own operator Product like Mul. It has
 * registered kernels of Neg, Equal and If (test_ep_kernels.c), and an operator Twice with a kernel
 * (test_ep_operators.c). Entries of the environment select what else it does:
 *     crash=1    CreateEpFactories calls a NULL function      refuse=1  CreateEpFactories fails
 *     old=1      a version without this interface              memory=1  it computes in the memory of its own "device"
 *     stream=1   it copies to the host when its stream is flushed
 *     owner=NAME calls fail if NAME is not this EP's name     none=1    it supports no device
 *     two=1      it also supports a GPU, on which the first element of each product is wrong by the number of devices
 * and options of the execution provider:
 *     drop=1     it copies constants, so that they are no inputs of fused nodes
 *     heap=1     its runs create objects of the runtime
 *     fail=1     runs fail                                    fault=Mul  the first element of each product is wrong;
 *                                                             fault=Add, fault=Neg likewise
 * If the runtime asks for EPContext nodes, they have the program as text (test_ep_context.c). With TEST_EP_RESTORES in
 * the environment of the process it compiles no other nodes, with TEST_EP_STALE it prefers to compile again, and with
 * TEST_EP_NEWER it asks for an interface that no runtime has, and crashes. */
#include "test_ep.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

const struct api *api;
const OrtEpApi *ep_api;
static OrtMemoryInfo *memory; /* NULL: the host's */
static bool has_stream;
static OrtKernelRegistry *registry;
static uint32_t
    factory_count; /* factories that share the registry and the kind of memory; the host creates one at a time */

/* Memory of the device: all blocks are in a list, so that a kernel that gets memory of the host is found. */
struct block {
    struct block *next;
    size_t bytes;
    _Alignas(64) char data[];
};
static pthread_mutex_t device_lock = PTHREAD_MUTEX_INITIALIZER; /* of the two lines below */
static struct block *device_blocks;
static test_ep_copies copies;
static int stream_count; /* not released */

__attribute__((visibility("default"))) test_ep_copies test_ep_take_copies(void);
test_ep_copies test_ep_take_copies(void)
{
    test_ep_copies taken;

    (void)pthread_mutex_lock(&device_lock);
    taken = copies;
    copies = (test_ep_copies){ 0 };
    (void)pthread_mutex_unlock(&device_lock);
    return taken;
}

static bool is_on_device(const void *data, size_t bytes)
{
    const char *at = data;
    bool found = false;

    (void)pthread_mutex_lock(&device_lock);
    for (const struct block *block = device_blocks; block != NULL && !found; block = block->next)
        found = at >= block->data && at + bytes <= block->data + block->bytes;
    (void)pthread_mutex_unlock(&device_lock);
    return found;
}

typedef struct test_factory {
    OrtEpFactory base;
} test_factory;

/* Whether the environment has the value for the key; absent: the answer for an environment without the key. */
static bool env_has(const char *key, const char *wanted, bool absent)
{
    OrtKeyValuePairs *pairs = NULL;
    OrtStatus *failed = ep_api->GetEnvConfigEntries(&pairs);
    const char *value = failed == NULL ? api->GetKeyValue(pairs, key) : NULL;
    bool is = value != NULL ? strcmp(value, wanted) == 0 : absent;

    api->ReleaseStatus(failed);
    api->ReleaseKeyValuePairs(pairs);
    return is;
}

static bool env_is(const char *key)
{
    return env_has(key, "1", false);
}

/* Fails in the environment of another library. */
static OrtStatus *check_owner(void)
{
    return env_has("owner", EP_NAME, true) ? NULL : api->CreateStatus(ORT_EP_FAIL, "another library's environment");
}

int value_of(test_program *program, const char *name)
{
    for (int i = 0; i < program->value_count; i++)
        if (strcmp(program->names[i], name) == 0)
            return i;
    program->names[program->value_count] = strdup(name);
    return program->value_count++;
}

static OrtStatus *create_state(OrtNodeComputeInfo *self, OrtNodeComputeContext *context, void **state)
{
    test_program *fused = (test_program *)(void *)self;

    if (strcmp(ep_api->NodeComputeContext_NodeName(context), fused->name) != 0)
        return api->CreateStatus(ORT_EP_FAIL, "the fused node has another name than at Compile");
    *state = fused;
    return NULL;
}

OrtStatus *check_memory(const OrtValue *value, const void *data, size_t count)
{
    if (memory == NULL || count == 0)
        return NULL;
    if (!is_on_device(data, count * sizeof(float)) ||
        ep_api->MemoryDevice_GetDeviceType(ep_api->Value_GetMemoryDevice(value)) != 1)
        return api->CreateStatus(ORT_EP_FAIL, "a tensor is not in the memory of the device");
    return NULL;
}

/* A stream that executes submitted copies when it is flushed. */
typedef struct test_stream {
    OrtSyncStreamImpl base;
    struct {
        void *to;
        const void *from;
        size_t bytes;
    } copies[MOST_VALUES];
    int count;
} test_stream;

/* A kernel gets the stream of the device, if there is one, and the handle that the stream states. */
OrtStatus *check_stream(OrtKernelContext *context)
{
    OrtSyncStream *stream = NULL;
    void *handle = NULL;
    bool ok;

    TRY(api->KernelContext_GetGPUComputeStream(context, &handle));
    TRY(api->KernelContext_GetSyncStream(context, &stream));
    if (!has_stream)
        ok = stream == NULL && handle == NULL && ep_api->SyncStream_GetImpl(NULL) == NULL;
    else
        ok = stream != NULL && api->SyncStream_GetHandle(stream) == handle &&
             handle == &((const test_stream *)(const void *)ep_api->SyncStream_GetImpl(stream))->count &&
             ep_api->SyncStream_GetSyncId(stream) > 0 && ep_api->GetSyncIdForLastWaitOnSyncStream(stream, stream) == 0;
    return ok ? NULL : api->CreateStatus(ORT_EP_FAIL, "the kernel has another stream");
}

/* The shape of a float tensor, without heap use. */
OrtStatus *count_of(const OrtValue *value, size_t *out, int64_t dims[8], size_t *rank)
{
    ONNXTensorElementDataType type = 0;
    const int64_t *shape = NULL;

    TRY(api->GetTensorElementTypeAndShapeDataReference(value, &type, &shape, rank));
    *out = 1;
    for (size_t i = 0; i < *rank; i++)
        *out *= (size_t)(dims[i] = shape[i]);
    return type == FLOAT ? NULL : api->CreateStatus(ORT_EP_FAIL, "a tensor is not of floats");
}

static OrtStatus *run_program(test_program *fused, OrtKernelContext *context, float **owned)
{
    float *values[MOST_VALUES] = { NULL };
    size_t count = 0, rank = 0;
    int64_t dims[8];

    for (int i = 0; i < fused->value_count; i++)
        values[i] = fused->constants[i];
    for (int i = 0; i < fused->input_count; i++) {
        const OrtValue *input = NULL;
        const void *data = NULL;

        TRY(api->KernelContext_GetInput(context, (size_t)i, &input));
        TRY(api->GetTensorData(input, &data));
        TRY(count_of(input, &count, dims, &rank));
        TRY(check_memory(input, data, count));
        values[fused->inputs[i]] = (float *)(uintptr_t)data;
    }
    for (int i = 0; i < fused->output_count; i++) {
        OrtValue *output = NULL;
        void *data = NULL;

        TRY(api->KernelContext_GetOutput(context, (size_t)i, dims, rank, &output));
        TRY(api->GetTensorMutableData(output, &data));
        TRY(check_memory(output, data, count));
        values[fused->outputs[i]] = data;
    }
    for (int s = 0; s < fused->step_count; s++) {
        const test_step *step = &fused->steps[s];

        if (values[step->result] == NULL)
            values[step->result] = owned[step->result] = malloc((count + 1) * sizeof(float));
        for (size_t i = 0; i < count; i++)
            values[step->result][i] =
                step->is_product ? values[step->a][i] * values[step->b][i] : values[step->a][i] + values[step->b][i];
        if (count > 0 && strcmp(fused->ep->fault, step->is_product ? "Mul" : "Add") == 0)
            values[step->result][0] += (float)fused->ep->device_count;
    }
    return NULL;
}

static OrtStatus *compute(OrtNodeComputeInfo *self, void *state, OrtKernelContext *context)
{
    test_program *fused = state;
    float *owned[MOST_VALUES] = { NULL };
    size_t count;
    OrtStatus *failed;

    (void)self;
    if (fused->ep->fail)
        return api->CreateStatus(ORT_EP_FAIL, "the device is on fire");
    TRY(check_stream(context));
    TRY(note_run(fused->ep));
    TRY(api->KernelContext_GetInputCount(context, &count));
    if (count != (size_t)fused->input_count)
        return api->CreateStatus(ORT_EP_FAIL, "the fused node has another number of inputs than at Compile");
    failed = run_program(fused, context, owned);
    for (int i = 0; i < MOST_VALUES; i++)
        free(owned[i]);
    return failed;
}

static void release_state(OrtNodeComputeInfo *self, void *state)
{
    (void)self, (void)state;
}

static OrtStatus *keep_constant(test_program *fused, const OrtValueInfo *value, int index)
{
    const OrtValue *constant = NULL;
    const void *data = NULL;
    bool is_constant = false;
    size_t bytes = 0;

    TRY(api->ValueInfo_IsConstantInitializer(value, &is_constant));
    if (!is_constant)
        return NULL;
    TRY(api->ValueInfo_GetInitializerValue(value, &constant));
    TRY(api->GetTensorSizeInBytes(constant, &bytes));
    TRY(api->GetTensorData(constant, &data));
    fused->constants[index] = malloc(bytes + 1);
    memcpy(fused->constants[index], data, bytes);
    return NULL;
}

static OrtStatus *add_step(test_program *fused, const OrtNode *node)
{
    const OrtValueInfo *inputs[2], *output[1];
    const char *op_type, *names[3];
    test_step *step = &fused->steps[fused->step_count++];

    TRY(api->Node_GetOperatorType(node, &op_type));
    TRY(api->Node_GetInputs(node, inputs, 2));
    TRY(api->Node_GetOutputs(node, output, 1));
    TRY(api->GetValueInfoName(inputs[0], &names[0]));
    TRY(api->GetValueInfoName(inputs[1], &names[1]));
    TRY(api->GetValueInfoName(output[0], &names[2]));
    step->is_product = strcmp(op_type, "Add") != 0;
    step->a = value_of(fused, names[0]);
    step->b = value_of(fused, names[1]);
    step->result = value_of(fused, names[2]);
    if (fused->ep->drop) {
        TRY(keep_constant(fused, inputs[0], step->a));
        TRY(keep_constant(fused, inputs[1], step->b));
    }
    return NULL;
}

static OrtStatus *add_ends(test_program *fused, const OrtNode *node)
{
    const OrtValueInfo *values[MOST_VALUES];
    size_t count;
    const char *name;

    TRY(api->Node_GetNumInputs(node, &count));
    TRY(api->Node_GetInputs(node, values, count));
    for (size_t i = 0; i < count; i++) {
        TRY(api->GetValueInfoName(values[i], &name));
        fused->inputs[fused->input_count++] = value_of(fused, name);
    }
    TRY(api->Node_GetNumOutputs(node, &count));
    TRY(api->Node_GetOutputs(node, values, count));
    for (size_t i = 0; i < count; i++) {
        TRY(api->GetValueInfoName(values[i], &name));
        fused->outputs[fused->output_count++] = value_of(fused, name);
    }
    return NULL;
}

static OrtStatus *compile(OrtEp *self, const OrtGraph **graphs, const OrtNode **fused_nodes, size_t count,
                          OrtNodeComputeInfo **infos, OrtNode **ep_context_nodes)
{
    const OrtNode *nodes[MOST_NODES];
    test_program *fused = calloc(1, sizeof *fused);
    bool restored = false;
    size_t node_count;
    const char *name;

    TRY(check_owner());
    infos[0] = &fused->base;
    fused->base = (OrtNodeComputeInfo){ .ort_version_supported = ORT_VERSION_MINOR,
                                        .CreateState = create_state,
                                        .Compute = compute,
                                        .ReleaseState = release_state };
    fused->ep = (const test_ep *)(const void *)self;
    if (count != 1)
        return api->CreateStatus(ORT_EP_FAIL, "more than one graph");
    TRY(api->Node_GetName(fused_nodes[0], &name));
    (void)strncpy(fused->name, name, sizeof fused->name - 1);
    TRY(api->Node_GetEpName(fused_nodes[0], &name));
    if (strcmp(name, EP_NAME) != 0)
        return api->CreateStatus(ORT_EP_FAIL, "the fused node is another provider's");
    TRY(api->Graph_GetNumNodes(graphs[0], &node_count));
    TRY(api->Graph_GetNodes(graphs[0], nodes, node_count));
    TRY(is_context(nodes[0], &restored));
    if (restored)
        TRY(read_context(fused, nodes[0]));
    else if (getenv("TEST_EP_RESTORES") != NULL)
        return api->CreateStatus(ORT_EP_FAIL, "nodes are compiled that were to be restored");
    for (size_t i = 0; !restored && i < node_count; i++)
        TRY(add_step(fused, nodes[i]));
    TRY(add_ends(fused, fused_nodes[0]));
    return fused->ep->makes_contexts ? make_context(fused, &ep_context_nodes[0]) : NULL;
}

static void release_infos(OrtEp *self, OrtNodeComputeInfo **infos, size_t count)
{
    (void)self;
    for (size_t i = 0; i < count; i++) {
        test_program *fused = (test_program *)(void *)infos[i];

        for (int v = 0; v < fused->value_count; v++) {
            free(fused->names[v]);
            free(fused->constants[v]);
        }
        free(fused);
    }
}

static OrtStatus *is_plain(const OrtNode *node, const char *wanted_domain, const char *wanted, bool *out)
{
    const OrtValueInfo *values[2];
    const char *op_type, *domain;
    int64_t dims[2][8];
    size_t rank[2], count;

    *out = false;
    TRY(api->Node_GetOperatorType(node, &op_type));
    TRY(api->Node_GetDomain(node, &domain));
    TRY(api->Node_GetNumInputs(node, &count));
    if (strcmp(op_type, wanted) != 0 || strcmp(domain, wanted_domain) != 0 || count != 2)
        return NULL;
    TRY(api->Node_GetInputs(node, values, 2));
    for (int i = 0; i < 2; i++) {
        const OrtTensorTypeAndShapeInfo *shape = NULL;
        ONNXTensorElementDataType element = 0;
        const OrtTypeInfo *type = NULL;

        TRY(api->GetValueInfoTypeInfo(values[i], &type));
        TRY(api->CastTypeInfoToTensorInfo(type, &shape));
        TRY(api->GetTensorElementType(shape, &element));
        TRY(api->GetDimensionsCount(shape, &rank[i]));
        if (element != FLOAT || rank[i] > 8)
            return NULL;
        TRY(api->GetDimensions(shape, dims[i], rank[i]));
    }
    *out = rank[0] == rank[1] && memcmp(dims[0], dims[1], rank[0] * sizeof(int64_t)) == 0;
    return NULL;
}

/* Every output of a node names its producer and its consumers, and a view of one node has that node's ends. */
static OrtStatus *check_links(const OrtGraph *graph, const OrtNode *node)
{
    const OrtValueInfo *outputs[8], *inputs[MOST_VALUES], *ends[MOST_VALUES];
    const OrtNode *producer = NULL, *consumers[MOST_NODES];
    size_t output_count, input_count, count, index = 99;
    int64_t at[MOST_NODES];
    OrtGraph *view = NULL;

    TRY(api->Node_GetNumOutputs(node, &output_count));
    TRY(api->Node_GetOutputs(node, outputs, output_count));
    for (size_t i = 0; i < output_count; i++) {
        TRY(api->ValueInfo_GetValueProducer(outputs[i], &producer, &index));
        if (producer != node || index != i)
            return api->CreateStatus(ORT_EP_FAIL, "a value has another producer");
        TRY(api->ValueInfo_GetValueNumConsumers(outputs[i], &count));
        TRY(api->ValueInfo_GetValueConsumers(outputs[i], consumers, at, count));
        for (size_t k = 0; k < count; k++) {
            TRY(api->Node_GetNumInputs(consumers[k], &input_count));
            TRY(api->Node_GetInputs(consumers[k], inputs, input_count));
            if ((size_t)at[k] >= input_count || inputs[at[k]] != outputs[i])
                return api->CreateStatus(ORT_EP_FAIL, "a node does not consume the value that says so");
        }
    }
    TRY(api->Graph_GetGraphView(graph, &node, 1, &view));
    TRY(api->Graph_GetNumNodes(view, &count));
    TRY(api->Graph_GetNumInputs(view, &input_count));
    TRY(api->Graph_GetInputs(view, ends, input_count));
    api->ReleaseGraph(view);
    return count == 1 && input_count >= 1 ? NULL : api->CreateStatus(ORT_EP_FAIL, "a view has other nodes");
}

/* Fuses runs of consecutive products and sums, claims what has a kernel, and claims Abs without having one. */
static OrtStatus *get_capability(OrtEp *self, const OrtGraph *graph, OrtEpGraphSupportInfo *support)
{
    const test_ep *ep = (const test_ep *)(const void *)self;
    const OrtNodeFusionOptions fusion = { ORT_VERSION_MINOR, ep->drop };
    const OrtNode *nodes[MOST_NODES], *group[MOST_NODES];
    size_t node_count, group_count = 0;

    TRY(check_owner());
    TRY(api->Graph_GetNumNodes(graph, &node_count));
    if (node_count > MOST_NODES)
        return api->CreateStatus(ORT_EP_FAIL, "more nodes than the test expects");
    TRY(api->Graph_GetNodes(graph, nodes, node_count));
    for (size_t i = 0; i < node_count; i++) {
        bool product = false, own = false, sum = false, context = false;
        const OrtKernelDef *kernel = NULL;
        const char *op_type;

        TRY(check_links(graph, nodes[i]));
        TRY(is_plain(nodes[i], "", "Mul", &product));
        TRY(is_plain(nodes[i], OWN_DOMAIN, "Product", &own));
        TRY(is_plain(nodes[i], "", "Add", &sum));
        TRY(api->Node_GetOperatorType(nodes[i], &op_type));
        TRY(is_context(nodes[i], &context));
        if (product || own || sum || context) {
            group[group_count++] = nodes[i];
        } else {
            if (group_count > 0)
                TRY(ep_api->EpGraphSupportInfo_AddNodesToFuse(support, group, group_count, &fusion));
            group_count = 0;
            TRY(ep_api->EpGraphSupportInfo_LookUpKernel(support, nodes[i], &kernel));
            if (kernel != NULL || strcmp(op_type, "Abs") == 0 || strcmp(op_type, "Twice") == 0)
                TRY(ep_api->EpGraphSupportInfo_AddSingleNode(support, nodes[i]));
        }
    }
    return group_count > 0 ? ep_api->EpGraphSupportInfo_AddNodesToFuse(support, group, group_count, &fusion) : NULL;
}

static OrtStatus *get_registry(OrtEp *self, const OrtKernelRegistry **out)
{
    (void)self;
    *out = registry;
    return NULL;
}

#define DEVICE_BYTES ((size_t)1 << 32) /* all memory of the device */

static void *allocate(OrtAllocator *self, size_t bytes)
{
    struct block *added = bytes <= DEVICE_BYTES ? aligned_alloc(64, (sizeof *added + bytes + 63) / 64 * 64) : NULL;

    (void)self;
    if (added == NULL)
        return NULL;
    added->bytes = bytes;
    (void)pthread_mutex_lock(&device_lock);
    added->next = device_blocks;
    device_blocks = added;
    (void)pthread_mutex_unlock(&device_lock);
    return added->data;
}

static void release_memory(OrtAllocator *self, void *data)
{
    (void)self;
    if (data == NULL)
        return;
    (void)pthread_mutex_lock(&device_lock);
    for (struct block **at = &device_blocks; *at != NULL; at = &(*at)->next) {
        struct block *removed = *at;

        if (removed->data == data) {
            *at = removed->next;
            free(removed);
            break;
        }
    }
    (void)pthread_mutex_unlock(&device_lock);
}

static const OrtMemoryInfo *describe(const OrtAllocator *self)
{
    (void)self;
    return memory;
}

static OrtStatus *create_allocator(OrtEpFactory *self, const OrtMemoryInfo *info, const OrtKeyValuePairs *options,
                                   OrtAllocator **out)
{
    static OrtAllocator allocator = {
        .version = ORT_VERSION_MINOR, .Alloc = allocate, .Free = release_memory, .Info = describe, .Reserve = allocate
    };

    (void)self, (void)options;
    if (info != memory)
        return api->CreateStatus(ORT_EP_FAIL, "the memory is not this device's");
    *out = &allocator;
    return NULL;
}

static void release_allocator(OrtEpFactory *self, OrtAllocator *allocator)
{
    (void)self, (void)allocator;
}

static bool can_copy(const OrtDataTransferImpl *self, const OrtMemoryDevice *from, const OrtMemoryDevice *to)
{
    (void)self;
    return ep_api->MemoryDevice_GetDeviceType(from) + ep_api->MemoryDevice_GetDeviceType(to) == 1;
}

static bool is_stream_aware(const OrtEpFactory *self)
{
    (void)self;
    return has_stream;
}

static void *stream_handle(OrtSyncStreamImpl *self)
{
    return &((test_stream *)(void *)self)->count;
}

static OrtStatus *flush(OrtSyncStreamImpl *self)
{
    test_stream *stream = (test_stream *)(void *)self;

    for (int i = 0; i < stream->count; i++)
        memcpy(stream->copies[i].to, stream->copies[i].from, stream->copies[i].bytes);
    stream->count = 0;
    return NULL;
}

static OrtStatus *end_run(OrtSyncStreamImpl *self)
{
    return ((test_stream *)(void *)self)->count == 0 ? NULL
                                                     : api->CreateStatus(ORT_EP_FAIL, "the stream was not flushed");
}

static void release_stream(OrtSyncStreamImpl *self)
{
    (void)__atomic_sub_fetch(&stream_count, 1, __ATOMIC_RELAXED);
    free(self);
}

static OrtStatus *create_stream(OrtEpFactory *self, const OrtMemoryDevice *device, const OrtKeyValuePairs *options,
                                OrtSyncStreamImpl **out)
{
    test_stream *stream;

    (void)self, (void)options;
    if (!ep_api->MemoryDevice_AreEqual(device, ep_api->MemoryInfo_GetMemoryDevice(memory)))
        return api->CreateStatus(ORT_EP_FAIL, "the stream is for other memory");
    stream = calloc(1, sizeof *stream);
    (void)__atomic_add_fetch(&stream_count, 1, __ATOMIC_RELAXED);
    stream->base = (OrtSyncStreamImpl){ .ort_version_supported = ORT_VERSION_MINOR,
                                        .Release = release_stream,
                                        .GetHandle = stream_handle,
                                        .Flush = flush,
                                        .OnSessionRunEnd = end_run };
    *out = &stream->base;
    return NULL;
}

static OrtStatus *copy_tensors(OrtDataTransferImpl *self, const OrtValue **from, OrtValue **to, OrtSyncStream **streams,
                               size_t count)
{
    (void)self;
    if (streams != NULL && !has_stream)
        return api->CreateStatus(ORT_EP_FAIL, "the stream of a copy was not created by this library");
    for (size_t i = 0; i < count; i++) {
        const OrtMemoryDevice *device = ep_api->Value_GetMemoryDevice(to[i]);
        const void *source = NULL;
        void *target = NULL;
        size_t bytes = 0;

        TRY(api->GetTensorData(from[i], &source));
        TRY(api->GetTensorMutableData(to[i], &target));
        TRY(api->GetTensorSizeInBytes(from[i], &bytes));
        (void)pthread_mutex_lock(&device_lock);
        ++*(ep_api->MemoryDevice_GetDeviceType(device) == 1 ? &copies.to_device : &copies.to_host);
        (void)pthread_mutex_unlock(&device_lock);
        if (!is_on_device(ep_api->MemoryDevice_GetDeviceType(device) == 1 ? target : source, bytes))
            return api->CreateStatus(ORT_EP_FAIL, "a copy between two tensors of the host");
        if (streams != NULL && ep_api->MemoryDevice_GetDeviceType(device) == 0) {
            test_stream *stream = (test_stream *)(uintptr_t)ep_api->SyncStream_GetImpl(streams[i]);

            stream->copies[stream->count].to = target;
            stream->copies[stream->count].from = source;
            stream->copies[stream->count++].bytes = bytes;
        } else {
            memcpy(target, source, bytes);
        }
    }
    return NULL;
}

/* Why none of the devices is supported. */
static OrtStatus *explain_device(OrtEpFactory *self, const OrtHardwareDevice *device,
                                 OrtDeviceEpIncompatibilityDetails *details)
{
    (void)self;
    return api->HardwareDevice_Type(device) == 0 && env_is("none")
               ? ep_api->DeviceEpIncompatibilityDetails_SetDetails(details, 1, 7, "its firmware is too old")
               : NULL;
}

static void release_transfer(OrtDataTransferImpl *self)
{
    (void)self;
}

static OrtStatus *create_transfer(OrtEpFactory *self, OrtDataTransferImpl **out)
{
    static OrtDataTransferImpl transfer = { .ort_version_supported = ORT_VERSION_MINOR,
                                            .Release = release_transfer,
                                            .CanCopy = can_copy,
                                            .CopyTensors = copy_tensors };

    (void)self;
    *out = &transfer;
    return NULL;
}

static const char *ep_name(const OrtEp *self)
{
    (void)self;
    return EP_NAME;
}

static const char *factory_name(const OrtEpFactory *self)
{
    (void)self;
    return EP_NAME;
}

static const char *vendor(const OrtEpFactory *self)
{
    (void)self;
    return "inlay's tests";
}

static OrtStatus *list_devices(OrtEpFactory *self, const OrtHardwareDevice *const *devices, size_t device_count,
                               OrtEpDevice **out, size_t most, size_t *out_count)
{
    static OrtHardwareDevice *gpu;
    char long_text[LONG_METADATA + 1] = "";
    OrtKeyValuePairs *metadata = NULL;

    *out_count = 0;
    for (size_t i = 0; i < device_count && *out_count < most; i++) {
        if (api->HardwareDevice_Type(devices[i]) != 0 || env_is("none"))
            continue;
        TRY(ep_api->CreateEpDevice(self, devices[i], NULL, NULL, &out[*out_count]));
        if (memory != NULL)
            TRY(ep_api->EpDevice_AddAllocatorInfo(out[*out_count], memory));
        ++*out_count;
    }
    if (!env_is("two") || *out_count >= most)
        return NULL;
    if (gpu == NULL)
        TRY(ep_api->CreateHardwareDevice(1, 0xBE57, 2, "a maker; of tests", NULL, &gpu));
    api->CreateKeyValuePairs(&metadata);
    api->AddKeyValuePair(metadata, "tier", "fast");
    for (int i = 0; i < LONG_METADATA; i++) /* more than other facts of a device */
        long_text[i] = (char)('a' + i % 26);
    api->AddKeyValuePair(metadata, "long", long_text);
    TRY(ep_api->CreateEpDevice(self, gpu, metadata, NULL, &out[(*out_count)++]));
    api->ReleaseKeyValuePairs(metadata);
    return NULL;
}

/* "": not set. */
static OrtStatus *option_text(const OrtSessionOptions *options, const char *key, char value[8])
{
    size_t bytes = 8;
    int has = 0;

    value[0] = '\0';
    TRY(api->HasSessionConfigEntry(options, key, &has));
    return has != 0 ? api->GetSessionConfigEntry(options, key, value, &bytes) : NULL;
}

static OrtStatus *option_is(const OrtSessionOptions *options, const char *key, bool *out)
{
    char value[8];

    TRY(option_text(options, key, value));
    *out = strcmp(value, "1") == 0;
    return NULL;
}

static OrtStatus *create_ep(OrtEpFactory *self, const OrtHardwareDevice *const *devices,
                            const OrtKeyValuePairs *const *metadata, size_t device_count,
                            const OrtSessionOptions *options, const OrtLogger *logger, OrtEp **out)
{
    test_ep *ep = calloc(1, sizeof *ep);

    (void)self;
    ep->base = (OrtEp){ .ort_version_supported = ORT_VERSION_MINOR,
                        .GetName = ep_name,
                        .GetCapability = get_capability,
                        .Compile = compile,
                        .ReleaseNodeComputeInfos = release_infos,
                        .GetCompiledModelCompatibilityInfo = compatibility_info,
                        .GetKernelRegistry = get_registry,
                        .CreateProfiler = create_profiler };
    ep->device_count = device_count;
    *out = &ep->base;
    if (device_count != (metadata[device_count - 1] == NULL ? 0 : device_count) || device_count > 2)
        return api->CreateStatus(ORT_EP_FAIL, "more devices than there are, or one without metadata");
    TRY(option_is(options, "ep." EP_NAME ".drop", &ep->drop));
    TRY(option_is(options, "ep." EP_NAME ".fail", &ep->fail));
    TRY(option_is(options, "ep." EP_NAME ".heap", &ep->uses_heap));
    TRY(option_is(options, "ep.context_enable", &ep->makes_contexts));
    TRY(option_text(options, "ep." EP_NAME ".fault", ep->fault));
    if (api->HardwareDevice_Type(devices[device_count - 1]) == 1)
        (void)strcpy(ep->fault, "Mul");
    return api->Logger_LogMessage(logger, ORT_LOGGING_LEVEL_INFO, "created", __FILE__, __LINE__, __func__);
}

/* A function that the host does not implement fails with a message that names it. */
static OrtStatus *check_refusals(void)
{
    OrtSession *session = NULL;
    OrtStatus *refused[2] = { ep_api->SharedPrePackedWeightCache_StoreWeightData(NULL, NULL, NULL, 0),
                              api->CreateSession(NULL, "model.onnx", NULL, &session) };
    const char *names[2] = { "SharedPrePackedWeightCache_StoreWeightData", "CreateSession" };
    bool ok = api->GetTrainingApi(30) == NULL && ep_api->SyncStream_GetImpl(NULL) == NULL;

    for (int i = 0; i < 2; i++) {
        ok = ok && refused[i] != NULL && api->GetErrorCode(refused[i]) == ORT_NOT_IMPLEMENTED &&
             strncmp(api->GetErrorMessage(refused[i]), names[i], strlen(names[i])) == 0;
        api->ReleaseStatus(refused[i]);
    }
    return ok ? NULL : api->CreateStatus(ORT_EP_FAIL, "a missing function is not refused by name");
}

static void release_ep(OrtEpFactory *self, OrtEp *ep)
{
    (void)self;
    free(ep);
}

/* Releases what the factories share, if there is none. */
static void release_shared(void)
{
    if (factory_count > 0)
        return;
    ep_api->ReleaseKernelRegistry(registry);
    registry = NULL;
    api->ReleaseCustomOpDomain(own_domain);
    own_domain = NULL;
    api->ReleaseMemoryInfo(memory);
    memory = NULL;
}

__attribute__((visibility("default"))) OrtStatus *CreateEpFactories(const char *name, const OrtApiBase *base,
                                                                    const OrtLogger *logger, OrtEpFactory **factories,
                                                                    size_t most, size_t *count);
OrtStatus *CreateEpFactories(const char *name, const OrtApiBase *base, const OrtLogger *logger,
                             OrtEpFactory **factories, size_t most, size_t *count)
{
    static void (*volatile nothing)(void);
    test_factory *factory;
    OrtStatus *failed;

    (void)logger, (void)most;
    *count = 0;
    api = (const struct api *)(const void *)base->GetApi(getenv("TEST_EP_NEWER") != NULL ? 1000 : 23);
    ep_api = api->GetEpApi();
    if (env_is("crash"))
        nothing();
    TRY(check_refusals());
    TRY(check_schemas());
    TRY(check_owner());
    if (env_is("refuse"))
        return api->CreateStatus(ORT_EP_FAIL, "no licence");
    if (strcmp(name, EP_NAME) != 0)
        return api->CreateStatus(ORT_EP_FAIL, "registered under another name");
    if (env_is("memory") && memory == NULL)
        TRY(api->CreateMemoryInfo_V2(EP_NAME " device", 1, 0xBE57, 0, 0, 0, ORT_DEVICE_ALLOCATOR, &memory));
    has_stream = env_is("stream");
    failed = registry == NULL ? register_kernels(&registry) : NULL;
    if (failed == NULL && own_domain == NULL)
        failed = create_own_domain();
    factory = failed == NULL ? calloc(1, sizeof *factory) : NULL;
    if (factory == NULL) {
        release_shared();
        return failed != NULL ? failed : api->CreateStatus(ORT_EP_FAIL, "no memory");
    }
    factory->base = (OrtEpFactory){ .ort_version_supported = env_is("old") ? 22 : ORT_VERSION_MINOR,
                                    .GetName = factory_name,
                                    .GetVendor = vendor,
                                    .GetSupportedDevices = list_devices,
                                    .CreateEp = create_ep,
                                    .ReleaseEp = release_ep,
                                    .ValidateCompiledModelCompatibilityInfo = validate_info,
                                    .CreateAllocator = create_allocator,
                                    .ReleaseAllocator = release_allocator,
                                    .CreateDataTransfer = create_transfer,
                                    .IsStreamAware = is_stream_aware,
                                    .CreateSyncStreamForDevice = create_stream,
                                    .GetHardwareDeviceIncompatibilityDetails = explain_device,
                                    .GetNumCustomOpDomains = count_domains,
                                    .GetCustomOpDomains = get_domains };
    factory_count++;
    factories[0] = &factory->base;
    *count = 1;
    return NULL;
}

__attribute__((visibility("default"))) OrtStatus *ReleaseEpFactory(OrtEpFactory *factory);
OrtStatus *ReleaseEpFactory(OrtEpFactory *factory)
{
    OrtStatus *failed = NULL;

    factory_count--;
    release_shared();
    free(factory);
    if (factory_count == 0 && (device_blocks != NULL || __atomic_load_n(&stream_count, __ATOMIC_RELAXED) != 0))
        failed = api->CreateStatus(ORT_EP_FAIL, "memory of the device was not freed");
    return failed;
}
