#include "serve/protocol/http2_streams.h"
#include "inlay/check.h"
#include "serve/base/chain.h"
#include "serve/protocol/http2_rest.h"

enum { MAX_STREAMS = 256 };

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    http2_streams *streams = user;
    struct call *call;

    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    call = call_create(streams, session, frame->hd.stream_id);
    if (call == NULL)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    CHAIN_ADD(streams->calls, call, next, previous);
    (void)nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, call);
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_bytes,
                     const uint8_t *value, size_t value_bytes, uint8_t flags, void *user)
{
    struct call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

    (void)flags;
    (void)user;
    if (call != NULL && frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
        call_header(call, (const char *)name, name_bytes, (const char *)value, value_bytes);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data, size_t bytes,
                   void *user)
{
    struct call *call = nghttp2_session_get_stream_user_data(session, stream);

    (void)flags;
    (void)user;
    if (call != NULL && call->rest.exchange != NULL)
        rest_data(call, data, bytes);
    else if (call != NULL && !call_data(call, data, bytes))
        (void)nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, stream, NGHTTP2_ENHANCE_YOUR_CALM);
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct call *call;

    (void)user;
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
        return 0;
    call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (call == NULL)
        return 0;
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0)
        call->in.ended = true;
    if (call->streams->has_rest && !call->head.is_grpc && call->rest.exchange == NULL && !call->ended &&
        !rest_begin(call))
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    if (call->rest.exchange != NULL) {
        if (call->in.ended)
            rest_end(call);
    } else if (call->head.method != NULL || call->ended || call_begin(call)) {
        call_advance(call);
    }
    return 0;
}

/* After the end of a reply, resets a stream on which the client still sends data. Trailers or data end it. */
static int on_sent(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    const struct call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

    (void)user;
    if (call != NULL && (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0 && !call->in.ended)
        (void)nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_NO_ERROR);
    return 0;
}

static void leave(struct call *call)
{
    if (call->rest.exchange != NULL)
        rest_leave(call);
    else
        grpc_leave(call);
}

static int on_close(nghttp2_session *session, int32_t stream, uint32_t code, void *user)
{
    struct call *call = nghttp2_session_get_stream_user_data(session, stream);

    (void)code;
    if (call == NULL)
        return 0;
    INLAY_CHECK(call->session == session);
    CHAIN_REMOVE(((http2_streams *)user)->calls, call, next, previous);
    leave(call);
    return 0;
}

nghttp2_session *http2_streams_open(http2_streams *streams)
{
    nghttp2_settings_entry entries[] = {
        { NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, MAX_STREAMS },
        { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1 << 20 },
        { NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t)streams->server->limits.header_bytes },
    };
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_session *session = NULL;

    if (nghttp2_session_callbacks_new(&callbacks) != 0)
        return NULL;
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_sent);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    if (nghttp2_session_server_new(&session, callbacks, streams) != 0)
        session = NULL;
    nghttp2_session_callbacks_del(callbacks);
    if (session != NULL) {
        (void)nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, entries, sizeof entries / sizeof entries[0]);
        (void)nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0, 4 << 20);
    }
    return session;
}

void http2_streams_close(http2_streams *streams, nghttp2_session *session)
{
    while (streams->calls != NULL) {
        struct call *call = streams->calls;

        CHAIN_REMOVE(streams->calls, call, next, previous);
        leave(call);
    }
    nghttp2_session_del(session); /* deletes the streams without calling callbacks */
}
