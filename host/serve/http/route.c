#include "serve/http/route.h"
#include "inlay/check.h"
#include <string.h>

const char *route_methods(route_kind kind)
{
    static const char *const methods[ROUTE_COUNT] = {
#define ROUTE_METHODS(name, methods, access) methods,
        ROUTE_LIST(ROUTE_METHODS)
#undef ROUTE_METHODS
    };
    INLAY_CHECK(kind < ROUTE_COUNT);
    return methods[kind];
}

bool route_takes(route_kind kind, const char *method)
{
    const char *methods = route_methods(kind);

    if (strcmp(method, "HEAD") == 0)
        method = "GET";
    return strcmp(methods, method) == 0 ||
           (strchr(methods, ',') != NULL && (strcmp(method, "GET") == 0 || strcmp(method, "POST") == 0));
}

int route_access(route_kind kind, const char *method)
{
    static const int tokens[ROUTE_COUNT] = {
#define ROUTE_ACCESS(name, methods, access) access,
        ROUTE_LIST(ROUTE_ACCESS)
#undef ROUTE_ACCESS
    };
    return strchr(route_methods(kind), ',') != NULL && strcmp(method, "POST") == 0 ? 2 : tokens[kind];
}

bool route_is_admin(route_kind kind)
{
    return kind == ROUTE_LIVE || kind == ROUTE_READY || kind == ROUTE_MODEL_READY || kind == ROUTE_METRICS;
}

/* The rest of the path after a prefix, or NULL. */
static const char *after(const char *path, const char *prefix)
{
    size_t bytes = strlen(prefix);

    return strncmp(path, prefix, bytes) == 0 ? path + bytes : NULL;
}

static route_kind model_route_kind(const char *rest)
{
    if (*rest == '\0')
        return ROUTE_MODEL;
    if (strcmp(rest, "/ready") == 0)
        return ROUTE_MODEL_READY;
    if (strcmp(rest, "/config") == 0)
        return ROUTE_MODEL_CONFIG;
    if (strcmp(rest, "/infer") == 0)
        return ROUTE_INFER;
    if (strcmp(rest, "/stats") == 0)
        return ROUTE_STATS;
    if (strcmp(rest, "/rollout") == 0)
        return ROUTE_ROLLOUT;
    return strcmp(rest, "/trace/setting") == 0 ? ROUTE_TRACE : ROUTE_NONE;
}

/* Reads the digits of a version. Returns the rest of the path; NULL: not a version. */
static const char *read_version(const char *text, uint64_t *out)
{
    uint64_t number = 0;
    int digits = 0;

    for (; *text >= '0' && *text <= '9' && digits < 18; text++, digits++)
        number = number * 10 + (uint64_t)(*text - '0');
    *out = number;
    return digits > 0 && number > 0 && (*text == '/' || *text == '\0') ? text : NULL;
}

static struct route model_route(const char *path)
{
    struct route route = { .name = path, .name_bytes = strcspn(path, "/") };
    const char *rest = path + route.name_bytes, *versions = after(rest, "/versions/");

    if (strcmp(path, "stats") == 0)
        return (struct route){ .kind = ROUTE_STATS };
    if (route.name_bytes == 0)
        return (struct route){ .kind = ROUTE_NONE };
    if (versions != NULL)
        rest = read_version(versions, &route.version);
    route.kind = rest != NULL ? model_route_kind(rest) : ROUTE_NONE;
    return route;
}

static struct route repository_route(const char *path)
{
    struct route route = { .kind = ROUTE_NONE };
    const char *model = after(path, "models/");

    if (strcmp(path, "index") == 0)
        route.kind = ROUTE_INDEX;
    if (model == NULL)
        return route;
    route.name = model;
    route.name_bytes = strcspn(model, "/");
    if (route.name_bytes > 0)
        route.kind = strcmp(model + route.name_bytes, "/load") == 0     ? ROUTE_LOAD
                     : strcmp(model + route.name_bytes, "/unload") == 0 ? ROUTE_UNLOAD
                                                                        : ROUTE_NONE;
    return route;
}

static struct route shared_memory_route(const char *path)
{
    const char *region = after(path, "region/");
    struct route route = { .name = region, .name_bytes = region != NULL ? strcspn(region, "/") : 0 };
    const char *action = region != NULL ? region + route.name_bytes : path - 1;

    if (region != NULL && route.name_bytes == 0)
        return (struct route){ .kind = ROUTE_NONE };
    route.kind = strcmp(action, "/status") == 0                       ? ROUTE_SHARED_STATUS
                 : strcmp(action, "/unregister") == 0                 ? ROUTE_SHARED_UNREGISTER
                 : region != NULL && strcmp(action, "/register") == 0 ? ROUTE_SHARED_REGISTER
                                                                      : ROUTE_NONE;
    return route;
}

struct route route_find(const char *path)
{
    static const struct {
        const char *path;
        route_kind kind;
    } plain[] = { { "/", ROUTE_PAGE },
                  { "/metrics", ROUTE_METRICS },
                  { "/v2", ROUTE_SERVER },
                  { "/v2/", ROUTE_SERVER },
                  { "/v2/health/live", ROUTE_LIVE },
                  { "/v2/health/ready", ROUTE_READY },
                  { "/v2/trace/setting", ROUTE_TRACE },
                  { "/v2/logging", ROUTE_LOGGING },
                  { "/v2/cudasharedmemory/unregister", ROUTE_CUDA_UNREGISTER },
                  { "/v1/completions", ROUTE_COMPLETIONS },
                  { "/v1/chat/completions", ROUTE_CHAT },
                  { "/v1/responses", ROUTE_RESPONSES },
                  { "/v1/models", ROUTE_MODELS },
                  { "/v1/embeddings", ROUTE_EMBEDDINGS } };
    const char *rest = after(path, "/v2/models/");

    if (rest != NULL)
        return model_route(rest);
    rest = after(path, "/v2/systemsharedmemory/");
    if (rest != NULL)
        return shared_memory_route(rest);
    rest = after(path, "/v2/repository/");
    if (rest != NULL)
        return repository_route(rest);
    rest = after(path, "/v1/models/");
    if (rest != NULL && *rest != '\0')
        return (struct route){ .kind = ROUTE_MODELS, .name = rest, .name_bytes = strlen(rest) };
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        if (strcmp(path, plain[i].path) == 0)
            return (struct route){ .kind = plain[i].kind };
    return (struct route){ .kind = ROUTE_NONE };
}
