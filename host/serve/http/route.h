/* serve/http/route.h - maps a path to a route. */
#ifndef SERVE_ROUTE_H
#define SERVE_ROUTE_H
#include "serve/base/access.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Who may call the path: X(NAME, by GET and HEAD, by POST). */
#define ROUTE_LIST(X)                                                                                                  \
    X(NONE, NO_METHOD, NO_METHOD)                                                                                      \
    X(PAGE, USERS, NO_METHOD)                                                                                          \
    X(METRICS, USERS, NO_METHOD)                                                                                       \
    X(LIVE, EVERYONE, NO_METHOD)                                                                                       \
    X(READY, EVERYONE, NO_METHOD)                                                                                      \
    X(HEALTH, EVERYONE, NO_METHOD)                                                                                     \
    X(VERSION, USERS, NO_METHOD)                                                                                       \
    X(OPENAPI, USERS, NO_METHOD)                                                                                       \
    X(SERVER, USERS, NO_METHOD)                                                                                        \
    X(MODEL, USERS, NO_METHOD)                                                                                         \
    X(MODEL_CONFIG, USERS, NO_METHOD)                                                                                  \
    X(MODEL_READY, EVERYONE, NO_METHOD)                                                                                \
    X(INFER, NO_METHOD, USERS)                                                                                         \
    X(ROLLOUT, USERS, ALL_WORKERS)                                                                                     \
    X(STATS, USERS, NO_METHOD)                                                                                         \
    X(INDEX, NO_METHOD, USERS)                                                                                         \
    X(LOAD, NO_METHOD, ADMINS)                                                                                         \
    X(UNLOAD, NO_METHOD, ADMINS)                                                                                       \
    X(LOAD_ADAPTER, NO_METHOD, ADMINS)                                                                                 \
    X(UNLOAD_ADAPTER, NO_METHOD, ADMINS)                                                                               \
    X(COMPLETIONS, NO_METHOD, USERS)                                                                                   \
    X(CHAT, NO_METHOD, USERS)                                                                                          \
    X(RESPONSES, NO_METHOD, USERS)                                                                                     \
    X(MESSAGES, NO_METHOD, USERS)                                                                                      \
    X(INFILL, NO_METHOD, USERS)                                                                                        \
    X(LLAMA_COMPLETION, NO_METHOD, USERS)                                                                              \
    X(OLLAMA_CHAT, NO_METHOD, USERS)                                                                                   \
    X(OLLAMA_GENERATE, NO_METHOD, USERS)                                                                               \
    X(GENERATE, NO_METHOD, USERS)                                                                                      \
    X(GENERATE_STREAM, NO_METHOD, USERS)                                                                               \
    X(EMBEDDINGS, NO_METHOD, USERS)                                                                                    \
    X(RERANK, NO_METHOD, USERS)                                                                                        \
    X(SCORE, NO_METHOD, USERS)                                                                                         \
    X(TOKENIZE, NO_METHOD, USERS)                                                                                      \
    X(DETOKENIZE, NO_METHOD, USERS)                                                                                    \
    X(APPLY_TEMPLATE, NO_METHOD, USERS)                                                                                \
    X(TRANSCRIPTIONS, NO_METHOD, USERS)                                                                                \
    X(TRANSLATIONS, NO_METHOD, USERS)                                                                                  \
    X(SLOTS, USERS, NO_METHOD)                                                                                         \
    X(PROPS, USERS, NO_METHOD)                                                                                         \
    X(OLLAMA_TAGS, USERS, NO_METHOD)                                                                                   \
    X(MODELS, USERS, NO_METHOD)                                                                                        \
    X(TRACE, USERS, ADMINS)                                                                                            \
    X(LOGGING, USERS, ADMINS)                                                                                          \
    X(SHARED_STATUS, USERS, NO_METHOD)                                                                                 \
    X(SHARED_REGISTER, NO_METHOD, USERS)                                                                               \
    X(SHARED_UNREGISTER, NO_METHOD, USERS)                                                                             \
    X(CUDA_UNREGISTER, NO_METHOD, USERS)
typedef enum route_kind {
#define ROUTE_ENUM(name, get, post) ROUTE_##name,
    ROUTE_LIST(ROUTE_ENUM)
#undef ROUTE_ENUM
        ROUTE_COUNT
} route_kind;

struct route {
    route_kind kind;
    const char *name; /* [name_bytes] of the model or the region of shared memory, in the path; NULL = none */
    size_t name_bytes;
    uint64_t version; /* 0 = none given */
};

/* A path, with {model}, {version}, {region} and {id} for names. */
typedef struct route_path {
    const char *path, *summary;
    route_kind kind;
} route_path;
/* The paths of all routes, in order; NULL after the last one. */
const route_path *route_path_at(size_t index);
/* The route of a path; ROUTE_NONE: unknown. */
struct route route_find(const char *path);
/* Whether the route reads texts: a template, a grammar or a tokenizer works before its run. */
bool route_reads_texts(route_kind kind);
/* Whether the route reads sounds, whose spectrograms are computed before its run. */
bool route_reads_sounds(route_kind kind);
/* "GET", "POST" or "GET, POST". */
const char *route_methods(route_kind kind);
/* Whether admin_port has the route: health and metrics. */
bool route_is_admin(route_kind kind);
/* Who may call the route by this method; ACCESS_NO_METHOD: it has no such method. */
access_level route_access(route_kind kind, const char *method);
#endif
