/* serve/grpc_internal.h - a call over gRPC, between the connection (grpc.c), the call (grpc_call.c) and what it asks
 * for (grpc_info.c, grpc_infer.c). All of it belongs to the thread of grpc.c, but for a request that runs elsewhere. */
#ifndef SERVE_GRPC_INTERNAL_H
#define SERVE_GRPC_INTERNAL_H
#include "inference.pb-c.h"
#include "serve/grpc.h"
#include "serve/server.h"
#include <nghttp2/nghttp2.h>

/* gRPC's own codes. */
enum {
    GRPC_OK = 0,
    GRPC_CANCELLED = 1,
    GRPC_INVALID_ARGUMENT = 3,
    GRPC_DEADLINE_EXCEEDED = 4,
    GRPC_NOT_FOUND = 5,
    GRPC_PERMISSION_DENIED = 7,
    GRPC_RESOURCE_EXHAUSTED = 8,
    GRPC_UNIMPLEMENTED = 12,
    GRPC_INTERNAL = 13,
    GRPC_UNAVAILABLE = 14,
    GRPC_UNAUTHENTICATED = 16
};

struct call;
typedef struct wire_link wire_link;

/* What a method does with a message: writes its reply into call->reply, or fails with call_fail(), or goes to work. */
typedef void (*method_fn)(struct call *call, const uint8_t *message, size_t bytes);
struct method {
    const char *path;
    method_fn run;
    int access; /* as route_access() */
    bool streams;
};
const struct method *method_find(const char *path); /* NULL = there is none */

struct call {
    struct grpc *grpc;
    struct server *server;
    nghttp2_session *session; /* NULL once the stream is gone */
    int32_t stream;
    struct call *next, *previous; /* of its connection */
    char path[96];
    const struct method *method;
    char authorization[300];
    bool is_grpc, is_plain; /* content-type, no compression */
    size_t header_bytes;
    uint64_t timeout_ns; /* grpc-timeout; 0 = none */
    uint64_t arrived_ns; /* its header, later each message of a stream */

    struct strbuf in; /* what has arrived and is not taken yet */
    bool client_done;
    uint32_t messages;

    struct strbuf out; /* what is to be sent */
    size_t sent;
    bool answering, ended;
    int status;
    char text[512];

    struct strbuf reply; /* of the message at work */
    int reply_status;
    char reply_text[512];
    bool working, queued;
    bool keeping; /* queued with the keeper, not the scheduler */
    struct kept kept;
    bool finished; /* under the lock of grpc.c */
    struct call *next_finished;
    Inference__InferRequest *decoded;
    size_t decoded_bytes; /* of its message */
    infer_request request;
    bool raw; /* outputs as raw bytes */
    struct job job;
};

/* grpc_call.c */
struct call *call_create(struct grpc *grpc, struct server *server, nghttp2_session *session, int32_t stream);
void call_header(struct call *call, const char *name, size_t name_bytes, const char *value, size_t value_bytes);
/* Both false: the stream is to be reset. */
bool call_data(struct call *call, const uint8_t *data, size_t bytes);
void call_advance(struct call *call); /* takes the messages that are complete */
/* The message failed; the call goes on if it is a stream of requests, otherwise it ends. */
void call_fail(struct call *call, int status, const char *text);
void call_fail_diag(struct call *call, const inlay_diag *diag);
/* The message at work is finished, with reply, or reply_status and text. */
void call_finish_message(struct call *call);
/* Whether the caller may: 0 to 2, as route_access(); ends the call where not. */
bool call_may(struct call *call, int access);
/* Ends the call. */
void call_end(struct call *call, int status, const char *text);
void call_destroy(struct call *call);
/* Appends the message to call->reply. */
void call_pack(struct call *call, const ProtobufCMessage *message);
/* Unpacks with a limit of memory that depends on the size; NULL: the call has failed. */
void *call_unpack(struct call *call, const ProtobufCMessageDescriptor *type, const uint8_t *message, size_t bytes);
void call_release(void *unpacked);

/* grpc_session.c: the calls of a connection. */
typedef struct grpc_streams {
    struct grpc *grpc;
    struct server *server;
    struct call *calls;
} grpc_streams;
nghttp2_session *grpc_streams_open(grpc_streams *streams); /* NULL: no memory */
void grpc_streams_close(grpc_streams *streams, nghttp2_session *session);

/* grpc.c: the client wants no answer to the call any more. */
void grpc_leave(struct call *call);
/* grpc.c: hands a call that was queued back to its thread; any thread. */
void grpc_finished(struct call *call);

/* grpc_info.c, grpc_infer.c: the methods */
void grpc_live(struct call *call, const uint8_t *message, size_t bytes);
void grpc_ready(struct call *call, const uint8_t *message, size_t bytes);
void grpc_model_ready(struct call *call, const uint8_t *message, size_t bytes);
void grpc_server_metadata(struct call *call, const uint8_t *message, size_t bytes);
void grpc_model_metadata(struct call *call, const uint8_t *message, size_t bytes);
void grpc_index(struct call *call, const uint8_t *message, size_t bytes);
void grpc_health(struct call *call, const uint8_t *message, size_t bytes);
void grpc_load(struct call *call, const uint8_t *message, size_t bytes); /* grpc_admin.c */
void grpc_unload(struct call *call, const uint8_t *message, size_t bytes);
void grpc_statistics(struct call *call, const uint8_t *message, size_t bytes);
void grpc_trace_setting(struct call *call, const uint8_t *message, size_t bytes);
void grpc_log_settings(struct call *call, const uint8_t *message, size_t bytes);
/* "" = the latest; false: no version. */
bool grpc_version(const char *text, uint64_t *out_number);
void grpc_infer(struct call *call, const uint8_t *message, size_t bytes);
/* What infer keeps of a message. */
void grpc_infer_deinit(struct call *call);
#endif
