#include "grpc_fake.h"
#include "model_config.pb-c.h"
#include "reflection.pb-c.h"
#include "serve/exchange/access_log.h"
#include "serve/exchange/prepare.h"
#include "serve/grpc/grpc_read.h"
#include "serve/network/connection.h"
#include "serve/protocol/http2_rest.h"
#include "serve/protocol/http2_streams.h"
#include "serve/repository/repository.h"
#include "serve/schedule/load.h"
#include <stdlib.h>
#include <string.h>

const access_refusal *access_check(struct server *server, const struct client *client, const char *authorization,
                                   access_level level, uint32_t *out_delay_ms)
{
    static const access_refusal refusal = { 401, "no" };

    (void)server;
    (void)client;
    *out_delay_ms = 0;
    return level <= ACCESS_USERS || strcmp(authorization, "Bearer fuzz") == 0 ? NULL : &refusal;
}

const struct client *connection_client(struct connection *connection)
{
    return &connection->client;
}

void load_report(const struct server *server, bool json, char out[LOAD_BYTES])
{
    (void)server;
    (void)snprintf(out, LOAD_BYTES, json ? "JSON {}" : "TEXT ");
}

void prepare_submit(struct prepare *prepare, struct request *request, bool is_large, prepare_work work)
{
    (void)prepare;
    (void)is_large;
    work(request, NULL);
}

void grpc_leave(struct call *call)
{
    call_destroy(call);
}

bool rest_begin(struct call *call)
{
    (void)call; /* has_rest is not set */
    return false;
}

void rest_data(struct call *call, const uint8_t *data, size_t bytes)
{
    (void)call;
    (void)data;
    (void)bytes;
}

void rest_end(struct call *call)
{
    (void)call;
}

void rest_leave(struct call *call)
{
    (void)call;
}

void access_log_write(const struct request *request, const access_entry *entry)
{
    (void)request, (void)entry;
}

bool front_delay(front_task *task, uint64_t resume_ns)
{
    (void)task;
    (void)resume_ns;
    return false;
}

void front_wake(front_task *task)
{
    (void)task;
}

void loader_submit(struct loader *loader, load_task *task)
{
    (void)loader;
    (void)task;
}

struct model *repository_find(struct repository *repository, const char *name, size_t name_bytes, uint64_t version)
{
    (void)repository;
    (void)name;
    (void)name_bytes;
    (void)version;
    return NULL;
}

void grpc_resume(front_task *task)
{
    (void)task; /* no call waits for another thread */
}

static void echo(struct call *call, const ProtobufCMessageDescriptor *type, const uint8_t *message, size_t bytes)
{
    ProtobufCMessage *unpacked = call_unpack(call, type, message, bytes);

    if (unpacked == NULL)
        return;
    call_pack(call, unpacked);
    call_free_unpacked(unpacked);
}

#define ECHO(method, type)                                                                                             \
    void method(struct call *call, const uint8_t *message, size_t bytes)                                               \
    {                                                                                                                  \
        echo(call, &inference__##type##__descriptor, message, bytes);                                                  \
    }
ECHO(grpc_live, empty)
ECHO(grpc_ready, infer_reply)
ECHO(grpc_model_ready, model_name)
ECHO(grpc_server_metadata, server_metadata_reply)
ECHO(grpc_model_metadata, model_metadata_reply)
ECHO(grpc_index, index_reply)
ECHO(grpc_health, health_request)
ECHO(grpc_watch, health_reply)
ECHO(grpc_model_config, model_config_reply)
ECHO(grpc_reflection, reflection_request)
ECHO(grpc_load, repository_request)
ECHO(grpc_unload, stream_infer_reply)
ECHO(grpc_statistics, statistics_reply)
ECHO(grpc_trace_setting, trace_settings)
ECHO(grpc_log_settings, log_settings)
ECHO(grpc_shared_status, shared_status_reply)
ECHO(grpc_shared_register, shared_region)
ECHO(grpc_shared_unregister, shared_region)
ECHO(grpc_cuda_unregister, shared_region)

/* Reads every byte of every element, so that a sanitizer detects invalid pointers. */
static void touch(const infer_request *request)
{
    volatile unsigned char sum = 0;

    for (uint32_t i = 0; i < request->input_count; i++) {
        const infer_tensor *tensor = &request->inputs[i];

        if (tensor->region.name != NULL) /* nothing reads the shared memory */
            continue;
        for (uint64_t k = 0; k < tensor->bytes; k++)
            sum = (unsigned char)(sum + ((const unsigned char *)tensor->data)[k]);
        for (uint64_t k = 0; tensor->dtype == INLAY_STRING && k < tensor->count; k++)
            for (uint64_t c = 0; c < ((const inlay_str *)tensor->data)[k].bytes; c++)
                sum = (unsigned char)(sum + (unsigned char)((const inlay_str *)tensor->data)[k].data[c]);
    }
}

static void release(struct call *call)
{
    infer_request_deinit(&call->request.infer);
    call_free_unpacked(call->unpacked);
    call->unpacked = NULL;
}

void grpc_infer(struct call *call, const uint8_t *message, size_t bytes)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    call->release = release;
    call->unpacked = call_unpack(call, &inference__infer_request__descriptor, message, bytes);
    if (call->unpacked == NULL)
        return;
    if (grpc_read_request(call->unpacked, bytes, &call->request.infer, &diag) != INLAY_OK) {
        if (diag.text[0] == '\0' || strchr(diag.text, '\n') != NULL)
            __builtin_trap(); /* a failure without a message */
        call_fail_diag(call, &diag);
        return;
    }
    touch(&call->request.infer);
    call_pack(call, &call->unpacked->base);
}

bool fake_open(fake_link *link)
{
    memset(link, 0, sizeof *link);
    link->server.counts = &link->counts;
    link->server.limits.body_bytes = 1 << 16;
    link->server.limits.header_bytes = 4096;
    link->server.load_header = true;
    link->server.has_grpc = true;
    link->streams.server = &link->server;
    link->streams.connection = &link->connection;
    link->session = http2_streams_open(&link->streams);
    return link->session != NULL;
}

bool fake_receive(fake_link *link, const uint8_t *data, size_t bytes)
{
    return nghttp2_session_mem_recv(link->session, data, bytes) == (ssize_t)bytes;
}

void fake_send(fake_link *link, void (*take)(void *user, const uint8_t *data, size_t bytes), void *user)
{
    const uint8_t *data;
    ssize_t n;

    while ((n = nghttp2_session_mem_send(link->session, &data)) > 0)
        if (take != NULL)
            take(user, data, (size_t)n);
}

void fake_close(fake_link *link)
{
    http2_streams_close(&link->streams, link->session);
    if (link->counts.exchanges != 0)
        __builtin_trap(); /* a call that did not end */
}

static const char *const paths[] = { "/inference.GRPCInferenceService/ModelInfer",
                                     "/inference.GRPCInferenceService/ModelStreamInfer",
                                     "/inference.GRPCInferenceService/ServerLive",
                                     "/inference.GRPCInferenceService/ServerReady",
                                     "/inference.GRPCInferenceService/ModelReady",
                                     "/inference.GRPCInferenceService/ServerMetadata",
                                     "/inference.GRPCInferenceService/ModelMetadata",
                                     "/inference.GRPCInferenceService/RepositoryIndex",
                                     "/inference.GRPCInferenceService/RepositoryModelLoad",
                                     "/inference.GRPCInferenceService/RepositoryModelUnload",
                                     "/inference.GRPCInferenceService/ModelStatistics",
                                     "/inference.GRPCInferenceService/TraceSetting",
                                     "/inference.GRPCInferenceService/LogSettings",
                                     "/grpc.health.v1.Health/Check",
                                     "/none",
                                     "/inference.GRPCInferenceService/SystemSharedMemoryStatus",
                                     "/inference.GRPCInferenceService/SystemSharedMemoryRegister" };

static ssize_t next_piece(nghttp2_session *session, int32_t stream, uint8_t *to, size_t room, uint32_t *flags,
                          nghttp2_data_source *source, void *user)
{
    fake_client *client = source->ptr;
    size_t n = client->bytes - client->at;

    (void)session;
    (void)stream;
    (void)user;
    n = n < client->step ? n : client->step;
    n = n < room ? n : room;
    memcpy(to, client->data + client->at, n);
    client->at += n;
    if (client->at == client->bytes)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_bytes,
                     const uint8_t *value, size_t value_bytes, uint8_t flags, void *user)
{
    fake_client *client = user;

    (void)session;
    (void)frame;
    (void)value;
    (void)value_bytes;
    (void)flags;
    client->has_status |= name_bytes == 11 && memcmp(name, "grpc-status", 11) == 0;
    return 0;
}

static int on_close(nghttp2_session *session, int32_t stream, uint32_t code, void *user)
{
    fake_client *client = user;

    (void)session;
    (void)stream;
    client->has_status |= code != NGHTTP2_NO_ERROR; /* a stream that was reset has no status */
    return 0;
}

bool fake_client_open(fake_client *client, const uint8_t *data, size_t bytes)
{
#define HEADER(name, value)                                                                                            \
    {                                                                                                                  \
        (uint8_t *)(uintptr_t)(name), (uint8_t *)(uintptr_t)(value), strlen(name), strlen(value), NGHTTP2_NV_FLAG_NONE \
    }
    const char *path = paths[data[0] % (sizeof paths / sizeof paths[0])];
    const nghttp2_nv headers[] = { HEADER(":method", "POST"),     HEADER(":scheme", "http"),
                                   HEADER(":path", path),         HEADER(":authority", "fuzz"),
                                   HEADER("te", "trailers"),      HEADER("content-type", "application/grpc"),
                                   HEADER("grpc-timeout", "10S"), HEADER("authorization", "Bearer fuzz") };
    nghttp2_data_provider provider = { .source.ptr = client, .read_callback = next_piece };
    nghttp2_session_callbacks *callbacks = NULL;

    *client = (fake_client){ .data = data + 2, .bytes = bytes - 2, .step = data[1] != 0 ? data[1] : 16384 };
    if (nghttp2_session_callbacks_new(&callbacks) != 0)
        return false;
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    if (nghttp2_session_client_new(&client->session, callbacks, client) != 0)
        client->session = NULL;
    nghttp2_session_callbacks_del(callbacks);
    return client->session != NULL && nghttp2_submit_settings(client->session, NGHTTP2_FLAG_NONE, NULL, 0) == 0 &&
           nghttp2_submit_request(client->session, NULL, headers, sizeof headers / sizeof headers[0], &provider, NULL) >
               0;
}
