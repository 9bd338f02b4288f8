/* Profiles of sessions: one context records the runs, one at a time. */
#include "addon.h"
#include <stdlib.h>
#include <string.h>

inlay_status profile_begin(struct session *session, inlay_diag *diag)
{
    inlay_status status = inlay_context_create(session->session, &session->profiled, diag);

    return status == INLAY_OK ? inlay_context_profile(session->profiled, 1, 0, diag) : status;
}

struct text {
    char *data;
    size_t bytes, room;
    bool failed; /* no memory */
};

static void append(void *user, const char *piece, size_t bytes)
{
    struct text *text = user;

    if (!text->failed && bytes > text->room - text->bytes) {
        const size_t room = 2 * (text->bytes + bytes);
        char *grown = realloc(text->data, room);

        text->failed = grown == NULL;
        if (grown != NULL) {
            text->data = grown;
            text->room = room;
        }
    }
    if (text->failed)
        return;
    memcpy(text->data + text->bytes, piece, bytes);
    text->bytes += bytes;
}

napi_value profile_end(napi_env env, napi_callback_info info)
{
    const inlay_profile_options how = { .struct_size = sizeof how, .format = "onnxruntime" };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_context *context;
    struct session *session;
    struct text text = { 0 };
    inlay_status status;
    napi_value args[1], out = NULL;
    size_t count = 1;

    if (napi_get_cb_info(env, info, &count, args, NULL, NULL) != napi_ok ||
        (session = session_of(env, args[0])) == NULL)
        return js_throw(env, "endProfile(session)");
    (void)pthread_mutex_lock(&session->profile_lock);
    context = __atomic_exchange_n(&session->profiled, NULL, __ATOMIC_ACQ_REL);
    (void)pthread_mutex_unlock(&session->profile_lock);
    if (context == NULL)
        return NULL;
    status = inlay_context_profile_write(context, &how, append, &text, &diag);
    if (status == INLAY_INVALID_ARGUMENT && text.bytes == 0) /* no run happened */
        append(&text, "[\n]\n", 4);
    inlay_context_destroy(context);
    if (text.failed || (status != INLAY_OK && status != INLAY_INVALID_ARGUMENT))
        (void)js_throw(env, text.failed ? "no memory for the profile" : diag.text);
    else
        out = js_text(env, text.data, text.bytes);
    free(text.data);
    return out;
}
