/* serve/http/route.h - maps a path to a route. */
#ifndef SERVE_ROUTE_H
#define SERVE_ROUTE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(NAME, methods, access); a POST to a route with both methods changes the server, see route_access(). */
#define ROUTE_LIST(X)                                                                                                  \
    X(NONE, "", 0)                                                                                                     \
    X(PAGE, "GET", 1)                                                                                                  \
    X(METRICS, "GET", 1)                                                                                               \
    X(LIVE, "GET", 0)                                                                                                  \
    X(READY, "GET", 0)                                                                                                 \
    X(HEALTH, "GET", 0)                                                                                                \
    X(VERSION, "GET", 1)                                                                                               \
    X(OPENAPI, "GET", 1)                                                                                               \
    X(SERVER, "GET", 1)                                                                                                \
    X(MODEL, "GET", 1)                                                                                                 \
    X(MODEL_CONFIG, "GET", 1)                                                                                          \
    X(MODEL_READY, "GET", 0)                                                                                           \
    X(INFER, "POST", 1)                                                                                                \
    X(ROLLOUT, "GET, POST", 1)                                                                                         \
    X(STATS, "GET", 1)                                                                                                 \
    X(INDEX, "POST", 1)                                                                                                \
    X(LOAD, "POST", 2)                                                                                                 \
    X(UNLOAD, "POST", 2)                                                                                               \
    X(COMPLETIONS, "POST", 1)                                                                                          \
    X(CHAT, "POST", 1)                                                                                                 \
    X(RESPONSES, "POST", 1)                                                                                            \
    X(EMBEDDINGS, "POST", 1)                                                                                           \
    X(RERANK, "POST", 1)                                                                                               \
    X(SCORE, "POST", 1)                                                                                                \
    X(TOKENIZE, "POST", 1)                                                                                             \
    X(DETOKENIZE, "POST", 1)                                                                                           \
    X(MODELS, "GET", 1)                                                                                                \
    X(TRACE, "GET, POST", 1)                                                                                           \
    X(LOGGING, "GET, POST", 1)                                                                                         \
    X(SHARED_STATUS, "GET", 1)                                                                                         \
    X(SHARED_REGISTER, "POST", 1)                                                                                      \
    X(SHARED_UNREGISTER, "POST", 1)                                                                                    \
    X(CUDA_UNREGISTER, "POST", 1)
typedef enum route_kind {
#define ROUTE_ENUM(name, methods, access) ROUTE_##name,
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
/* The paths of all routes, in order; NULL behind the last one. */
const route_path *route_path_at(size_t index);
/* The route of a path; ROUTE_NONE: unknown. */
struct route route_find(const char *path);
/* "GET", "POST" or "GET, POST". */
const char *route_methods(route_kind kind);
bool route_takes(route_kind kind, const char *method);
/* Whether admin_port has the route: health and metrics. */
bool route_is_admin(route_kind kind);
/* Required access: 0 = none, 1 = a token, if token_file is set, 2 = an admin token. */
int route_access(route_kind kind, const char *method);
#endif
