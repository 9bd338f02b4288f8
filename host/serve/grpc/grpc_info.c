/* Methods that return metadata of the server and its models. */
#include "model_config.pb-c.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "codecs/datatype.h"
#include "serve/grpc/grpc_internal.h"
#include "serve/base/extensions.h"
#include "serve/exchange/watch.h"
#include "serve/repository/repository.h"
#include <stdlib.h>
#include <string.h>

enum { SERVING = 1, NOT_SERVING = 2 };
enum { WATCH_NS = 100000000 }; /* time between two looks at the status */

void grpc_live(struct call *call, const uint8_t *message, size_t bytes)
{
    Inference__LiveReply reply = INFERENCE__LIVE_REPLY__INIT;

    (void)message;
    (void)bytes;
    reply.live = true;
    call_pack(call, &reply.base);
}

void grpc_ready(struct call *call, const uint8_t *message, size_t bytes)
{
    Inference__ReadyReply reply = INFERENCE__READY_REPLY__INIT;

    (void)message;
    (void)bytes;
    reply.ready = watch_is_ready(call->request.server);
    call_pack(call, &reply.base);
}

static int health_of(const struct server *server)
{
    return watch_is_ready(server) ? SERVING : NOT_SERVING;
}

void grpc_health(struct call *call, const uint8_t *message, size_t bytes)
{
    Inference__HealthReply reply = INFERENCE__HEALTH_REPLY__INIT;

    (void)message;
    (void)bytes;
    reply.status = health_of(call->request.server);
    call_pack(call, &reply.base);
}

/* Sends the status if it differs from the last one, and waits for the next change. */
static void watch(struct call *call)
{
    Inference__HealthReply reply = INFERENCE__HEALTH_REPLY__INIT;

    reply.status = health_of(call->request.server);
    if (reply.status != call->watched) {
        call->watched = reply.status;
        call_pack(call, &reply.base);
        call_send(call);
    }
    call->waits = WAITS_FOR_CHANGE;
    request_suspend(&call->request);
    front_later(&call->request.task, clock_ns() + WATCH_NS);
}

void grpc_watch(struct call *call, const uint8_t *message, size_t bytes)
{
    (void)message;
    (void)bytes;
    watch(call);
}

void grpc_watch_again(struct call *call)
{
    bool ends = atomic_load(&call->request.server->phase.draining) && call->watched == NOT_SERVING;

    if (!ends && !call->ended) {
        watch(call);
        return;
    }
    call->watched = 0;
    call_fail(call, GRPC_UNAVAILABLE, SERVER_ENDING);
    call_finish_message(call);
}

bool grpc_version(const char *text, uint64_t *out_number)
{
    char *end;

    *out_number = 0;
    if (text[0] == '\0')
        return true;
    *out_number = strtoull(text, &end, 10);
    return *end == '\0' && *out_number != 0 && text[0] != '-';
}

/* Returns the model of that name and version, or NULL. */
static struct model *find_model(struct call *call, const char *name, const char *version)
{
    uint64_t number;

    if (!grpc_version(version, &number))
        return NULL;
    return repository_find(call->request.server->repository, name, strlen(name), number);
}

/* Finds the model that the message, a ModelName, names; NULL: none. false: the call has failed. */
static bool named_model(struct call *call, const uint8_t *message, size_t bytes, struct model **out_model)
{
    Inference__ModelName *name = call_unpack(call, &inference__model_name__descriptor, message, bytes);

    *out_model = NULL;
    if (name == NULL)
        return false;
    *out_model = find_model(call, name->name, name->version);
    call_free_unpacked(name);
    return true;
}

/* The same for a model that has to be loaded; NULL: the call has failed. */
static struct model *loaded_model(struct call *call, const uint8_t *message, size_t bytes)
{
    struct model *model;

    if (named_model(call, message, bytes, &model) && model == NULL)
        call_fail(call, GRPC_NOT_FOUND, "no such model or version is loaded");
    return model;
}

void grpc_model_ready(struct call *call, const uint8_t *message, size_t bytes)
{
    Inference__ReadyReply reply = INFERENCE__READY_REPLY__INIT;
    struct model *model;

    if (!named_model(call, message, bytes, &model))
        return;
    reply.ready = model != NULL;
    model_unref(model);
    call_pack(call, &reply.base);
}

void grpc_server_metadata(struct call *call, const uint8_t *message, size_t bytes)
{
    Inference__ServerMetadataReply reply = INFERENCE__SERVER_METADATA_REPLY__INIT;

    (void)message;
    (void)bytes;
    reply.name = (char *)(uintptr_t) "inlay";
    reply.version = (char *)(uintptr_t)inlay_version();
    reply.extensions = (char **)(uintptr_t)server_extensions;
    reply.n_extensions = SERVER_EXTENSIONS - (size_t)(call->request.server->shared_memory == NULL);
    call_pack(call, &reply.base);
}

/* Returns [count] descriptions, followed in the same allocation by pointers to them; the caller frees it. NULL: out of
 * memory. */
static Inference__TensorMetadata *describe(const inlay_io_info *ios, uint32_t count,
                                           Inference__TensorMetadata ***out_list)
{
    Inference__TensorMetadata *all = malloc((count + 1u) * (sizeof *all + sizeof(void *)));

    if (all == NULL)
        return NULL;
    *out_list = (Inference__TensorMetadata **)(all + count + 1);
    for (uint32_t i = 0; i < count; i++) {
        const char *datatype = datatype_name(ios[i].dtype);

        inference__tensor_metadata__init(&all[i]);
        all[i].name = (char *)(uintptr_t)ios[i].name;
        all[i].datatype = (char *)(uintptr_t)(datatype != NULL ? datatype : inlay_dtype_name(ios[i].dtype));
        all[i].n_shape = ios[i].rank == INLAY_RANK_UNKNOWN ? 0 : ios[i].rank;
        all[i].shape = (int64_t *)(uintptr_t)ios[i].dims;
        (*out_list)[i] = &all[i];
    }
    return all;
}

typedef struct version_list {
    const char *name;
    char **texts; /* [count] owned */
    size_t count;
    bool failed; /* out of memory */
} version_list;

static void add_version(void *user, const repository_entry *entry)
{
    version_list *list = user;

    if (list->failed || !repository_matches(entry, list->name, strlen(list->name), 0))
        return;
    list->failed = !LIST_GROW(list->texts, list->count) ||
                   asprintf(&list->texts[list->count], "%llu", (unsigned long long)entry->version) < 0;
    list->count += !list->failed;
}

void grpc_model_metadata(struct call *call, const uint8_t *message, size_t bytes)
{
    Inference__ModelMetadataReply reply = INFERENCE__MODEL_METADATA_REPLY__INIT;
    Inference__TensorMetadata *inputs = NULL, *outputs = NULL;
    version_list versions = { .count = 0 };
    struct model *model = loaded_model(call, message, bytes);

    if (model == NULL)
        return;
    versions.name = model->name;
    repository_each(call->request.server->repository, add_version, &versions);
    inputs = describe(model->io.inputs, model->io.input_count, &reply.inputs);
    outputs = describe(model->io.outputs, model->io.output_count, &reply.outputs);
    reply.name = model->name;
    reply.versions = versions.texts;
    reply.n_versions = versions.count;
    reply.platform = (char *)(uintptr_t)(model->ensemble != NULL ? "ensemble" : "inlay_onnx");
    reply.n_inputs = model->io.input_count;
    reply.n_outputs = model->io.output_count;
    if (inputs != NULL && outputs != NULL && !versions.failed)
        call_pack(call, &reply.base);
    else
        call_fail(call, GRPC_RESOURCE_EXHAUSTED, "out of memory for the reply");
    free(inputs);
    free(outputs);
    for (size_t i = 0; i < versions.count; i++)
        free(versions.texts[i]);
    free(versions.texts);
    model_unref(model);
}

void grpc_model_config(struct call *call, const uint8_t *message, size_t bytes)
{
    Inference__ModelConfigReply reply = INFERENCE__MODEL_CONFIG_REPLY__INIT;
    struct model *model = loaded_model(call, message, bytes);

    if (model == NULL)
        return;
    reply.config = (Inference__ModelConfig *)(void *)model->config;
    call_pack(call, &reply.base);
    model_unref(model);
}

typedef struct index_list {
    struct strbuf *to;
    bool ready_only;
} index_list;
/* Appends an entry as one encoded field of the reply, so that not all entries have to be held at once. */
static void add_entry(void *user, const repository_entry *entry)
{
    index_list *list = user;
    Inference__IndexEntry message = INFERENCE__INDEX_ENTRY__INIT;
    Inference__IndexEntry *one = &message;
    Inference__IndexReply reply = INFERENCE__INDEX_REPLY__INIT;
    char version[24];
    size_t bytes;
    char *to;

    if (list->ready_only && entry->loaded == NULL)
        return;
    (void)snprintf(version, sizeof version, "%llu", (unsigned long long)entry->version);
    message.name = (char *)(uintptr_t)entry->name;
    message.version = version;
    message.state = (char *)(uintptr_t)entry->state;
    message.reason = (char *)(uintptr_t)(utf8_is_valid(entry->reason, strlen(entry->reason)) ? entry->reason : "");
    reply.n_models = 1;
    reply.models = &one;
    bytes = inference__index_reply__get_packed_size(&reply);
    to = strbuf_reserve(list->to, bytes);
    if (to != NULL)
        list->to->size += inference__index_reply__pack(&reply, (uint8_t *)to);
}

void grpc_index(struct call *call, const uint8_t *message, size_t bytes)
{
    Inference__IndexRequest *request = call_unpack(call, &inference__index_request__descriptor, message, bytes);
    index_list list = { &call->reply, false };

    if (request == NULL)
        return;
    list.ready_only = request->ready;
    call_free_unpacked(request);
    repository_each(call->request.server->repository, add_entry, &list);
}
