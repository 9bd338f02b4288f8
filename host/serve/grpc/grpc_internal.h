/* serve/grpc/grpc_internal.h - the Open Inference Protocol over gRPC: a call, shared by the streams of HTTP/2
 * (http2_streams.c, http2_rest.c), the call (grpc_call.c) and the methods (grpc_admin.c, grpc_info.c, grpc_infer.c).
 * Messages are read by protobuf-c. The thread of the connection owns a call, except while its request runs on another
 * thread. */
#ifndef SERVE_GRPC_INTERNAL_H
#define SERVE_GRPC_INTERNAL_H
#include "inference.pb-c.h"
#include "serve/exchange/exchange.h"
#include <nghttp2/nghttp2.h>

/* Status codes of gRPC. */
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
    GRPC_UNAUTHENTICATED = 16,
    GRPC_STATUSES
};

struct call;
struct connection;

/* A method handles a message: it writes its reply into call->reply, fails with call_fail(), or queues a request. */
typedef void (*method_fn)(struct call *call, const uint8_t *message, size_t bytes);
struct method {
    const char *path;
    method_fn run;
    access_level access;
    bool streams;        /* several messages: each is handled when it arrives */
    bool wraps_failures; /* a failure is a message, and the stream continues */
};
const struct method *method_find(const char *path); /* grpc_methods.c; NULL = unknown */

/* The calls of a connection, and what they need of it. */
typedef struct http2_streams {
    struct connection *connection;
    struct server *server;
    bool has_rest;                                /* requests that are not gRPC's are for REST */
    void (*flush)(struct connection *connection); /* sends the pending output; closes a connection that has ended */
    struct call *calls;
} http2_streams;

/* A status of gRPC, and its text. */
typedef struct grpc_result {
    int status;
    char text[512];
} grpc_result;

/* What the header of a call says. */
typedef struct call_head {
    struct strbuf fields; /* all, until it is known whether the call is gRPC's */
    size_t bytes;
    char path[96];
    char authorization[300];
    bool is_grpc;                 /* by content-type */
    coding message_coding;        /* grpc-encoding: of compressed messages */
    bool accepts[CODING_UNKNOWN]; /* grpc-accept-encoding */
    uint64_t timeout_ns;          /* grpc-timeout; 0 = none */
    char traceparent[64], request_id[64];
    const struct method *method; /* of the path; NULL: not known yet, or unknown */
} call_head;

struct call {
    struct request request;
    http2_streams *streams;   /* of its connection; valid while session is set */
    nghttp2_session *session; /* NULL once the stream is closed */
    int32_t stream;
    struct call *next, *previous; /* of its connection */
    struct {
        struct exchange *exchange; /* NULL: the call is gRPC's */
        bool is_stream;            /* the body comes from completion_take() */
        bool has_more;             /* more events follow */
    } rest;
    call_head head;

    struct {
        struct strbuf bytes;  /* not yet handled; counted in request.held_bytes with the message being handled */
        bool ended;           /* the client sends no more messages */
        uint32_t messages;    /* complete messages so far */
        size_t message_bytes; /* of the current one */
        bool is_coded;        /* the current one is compressed */
        struct strbuf taken;  /* the current one with its prefix, if another thread reads it */
    } in;

    struct strbuf out; /* output; the first `sent` bytes are sent */
    size_t sent;
    bool answering, ended;
    grpc_result result; /* of the call; its text is encoded for the field grpc-message */

    struct strbuf reply; /* to the current message */
    grpc_result message; /* of the current message */
    bool working;        /* a message is being handled */
    enum {               /* whom the suspended call waits for */
           WAITS_FOR_REPLY,
           WAITS_FOR_CHANGE, /* Health/Watch */
           WAITS_FOR_DELAY   /* before it ends with the status `message`, because of a wrong token */
    } waits;
    int watched;                        /* Health/Watch: the status that was sent last */
    Inference__InferRequest *unpacked;  /* the request; to be freed with call_free_unpacked() */
    size_t request_bytes;               /* of its message */
    void (*release)(struct call *call); /* frees what the method holds for a message; NULL: nothing */
};

/* grpc_call.c */
struct call *call_create(http2_streams *streams, nghttp2_session *session, int32_t stream);
void call_header(struct call *call, const char *name, size_t name_bytes, const char *value, size_t value_bytes);
/* Appends received bytes. false: the stream has to be reset. */
bool call_data(struct call *call, const uint8_t *data, size_t bytes);
void call_advance(struct call *call); /* handles the complete messages */
/* Reports that the message failed. A stream of requests continues; a call with one request ends. */
void call_fail(struct call *call, int status, const char *text);
void call_fail_diag(struct call *call, const inlay_diag *diag);
/* The current message is finished; the result is in reply, or in reply_status and reply_text. */
void call_finish_message(struct call *call);
/* Sends call->reply as a message; the current message is not finished. */
void call_send(struct call *call);
/* Ends the call. */
void call_end(struct call *call, int status, const char *text);
void call_destroy(struct call *call);
/* Appends the message to call->reply. */
void call_pack(struct call *call, const ProtobufCMessage *message);
/* grpc_texts.c: the first field of the message whose text has U+0000 or is not UTF-8; NULL: there is none. */
const char *grpc_bad_text(const ProtobufCMessageDescriptor *type, const uint8_t *message, size_t bytes);
/* Unpacks with a memory limit that depends on the size; NULL: the call has failed. */
void *call_unpack(struct call *call, const ProtobufCMessageDescriptor *type, const uint8_t *message, size_t bytes);
void call_free_unpacked(void *unpacked); /* NULL is a no-op */

/* grpc_access.c */
/* Finds the method and checks the complete header. false: the call has ended, or ends later because of its token. */
bool call_begin(struct call *call);
/* Whether the client may call a method of this level. false: the call has ended, or ends later because of its token. */
bool call_may(struct call *call, access_level level);

/* grpc_task.c: the client no longer waits for the call. */
void grpc_leave(struct call *call);
/* grpc_task.c: request_wake() returns a call to its thread, which calls this. */
void grpc_resume(front_task *task);
/* grpc_info.c, grpc_admin.c, grpc_infer.c, grpc_shared_memory.c: the methods */
void grpc_live(struct call *call, const uint8_t *message, size_t bytes);
void grpc_ready(struct call *call, const uint8_t *message, size_t bytes);
void grpc_model_ready(struct call *call, const uint8_t *message, size_t bytes);
void grpc_server_metadata(struct call *call, const uint8_t *message, size_t bytes);
void grpc_model_metadata(struct call *call, const uint8_t *message, size_t bytes);
void grpc_index(struct call *call, const uint8_t *message, size_t bytes);
void grpc_health(struct call *call, const uint8_t *message, size_t bytes);
void grpc_watch(struct call *call, const uint8_t *message, size_t bytes);
/* A watch is resumed: it sends the status if it has changed, and ends with the server. */
void grpc_watch_again(struct call *call);
void grpc_reflection(struct call *call, const uint8_t *message, size_t bytes);
void grpc_model_config(struct call *call, const uint8_t *message, size_t bytes);
void grpc_load(struct call *call, const uint8_t *message, size_t bytes);
void grpc_unload(struct call *call, const uint8_t *message, size_t bytes);
void grpc_statistics(struct call *call, const uint8_t *message, size_t bytes);
void grpc_trace_setting(struct call *call, const uint8_t *message, size_t bytes);
void grpc_shared_status(struct call *call, const uint8_t *message, size_t bytes);
void grpc_shared_register(struct call *call, const uint8_t *message, size_t bytes);
void grpc_shared_unregister(struct call *call, const uint8_t *message, size_t bytes);
void grpc_cuda_unregister(struct call *call, const uint8_t *message, size_t bytes);
void grpc_log_settings(struct call *call, const uint8_t *message, size_t bytes);
/* Reads a version number. "" = the latest (0); false: not a version. */
bool grpc_version(const char *text, uint64_t *out_number);
void grpc_infer(struct call *call, const uint8_t *message, size_t bytes);
#endif
