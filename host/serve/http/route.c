#include "serve/http/route.h"
#include "inlay/check.h"
#include <string.h>

const char *route_methods(route_kind kind)
{
    const bool gets = route_access(kind, "GET") != ACCESS_NO_METHOD;

    if (route_access(kind, "POST") == ACCESS_NO_METHOD)
        return gets ? "GET" : "";
    return gets ? "GET, POST" : "POST";
}

access_level route_access(route_kind kind, const char *method)
{
    static const struct {
        access_level get, post;
    } levels[ROUTE_COUNT] = {
#define ROUTE_LEVELS(name, get, post) { ACCESS_##get, ACCESS_##post },
        ROUTE_LIST(ROUTE_LEVELS)
#undef ROUTE_LEVELS
    };

    INLAY_CHECK(kind < ROUTE_COUNT);
    if (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0)
        return levels[kind].get;
    return strcmp(method, "POST") == 0 ? levels[kind].post : ACCESS_NO_METHOD;
}

bool route_is_admin(route_kind kind)
{
    return kind == ROUTE_LIVE || kind == ROUTE_READY || kind == ROUTE_MODEL_READY || kind == ROUTE_METRICS;
}

bool route_reads_texts(route_kind kind)
{
    return kind >= ROUTE_COMPLETIONS && kind <= ROUTE_APPLY_TEMPLATE;
}

bool route_reads_sounds(route_kind kind)
{
    return kind == ROUTE_TRANSCRIPTIONS || kind == ROUTE_TRANSLATIONS;
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
    if (strcmp(rest, "/generate") == 0)
        return ROUTE_GENERATE;
    if (strcmp(rest, "/generate_stream") == 0)
        return ROUTE_GENERATE_STREAM;
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

static const route_path paths[] = {
    { "/", "A page with the activity of the models", ROUTE_PAGE },
    { "/metrics", "Figures for Prometheus", ROUTE_METRICS },
    { "/health", "Whether the server is ready, as vLLM and llama-server say it", ROUTE_HEALTH },
    { "/v1/health", "The same, another path of llama-server", ROUTE_HEALTH },
    { "/ping", "The same, another path of vLLM", ROUTE_HEALTH },
    { "/version", "The version of the server", ROUTE_VERSION },
    { "/openapi.json", "This description", ROUTE_OPENAPI },
    { "/v2", "Metadata of the server", ROUTE_SERVER },
    { "/v2/health/live", "Whether the server runs", ROUTE_LIVE },
    { "/v2/health/ready", "Whether the server and its models are ready", ROUTE_READY },
    { "/v2/models/{model}", "Metadata of a model", ROUTE_MODEL },
    { "/v2/models/{model}/versions/{version}", "Metadata of a version", ROUTE_MODEL },
    { "/v2/models/{model}/config", "The configuration of a model in Triton's form", ROUTE_MODEL_CONFIG },
    { "/v2/models/{model}/versions/{version}/config", "The configuration of a version", ROUTE_MODEL_CONFIG },
    { "/v2/models/{model}/ready", "Whether a model is ready", ROUTE_MODEL_READY },
    { "/v2/models/{model}/versions/{version}/ready", "Whether a version is ready", ROUTE_MODEL_READY },
    { "/v2/models/{model}/infer", "Runs a model", ROUTE_INFER },
    { "/v2/models/{model}/versions/{version}/infer", "Runs a version of a model", ROUTE_INFER },
    { "/v2/models/{model}/generate", "Continues a text, in KServe's form", ROUTE_GENERATE },
    { "/v2/models/{model}/versions/{version}/generate", "The same of a version", ROUTE_GENERATE },
    { "/v2/models/{model}/generate_stream", "Continues a text, as events", ROUTE_GENERATE_STREAM },
    { "/v2/models/{model}/versions/{version}/generate_stream", "The same of a version", ROUTE_GENERATE_STREAM },
    { "/v2/models/stats", "Statistics of all models", ROUTE_STATS },
    { "/v2/models/{model}/stats", "Statistics of a model", ROUTE_STATS },
    { "/v2/models/{model}/versions/{version}/stats", "Statistics of a version", ROUTE_STATS },
    { "/v2/models/{model}/rollout", "The last rollout of a model, and its end", ROUTE_ROLLOUT },
    { "/v2/models/{model}/trace/setting", "Timestamps of a model's requests", ROUTE_TRACE },
    { "/v2/trace/setting", "Timestamps of requests", ROUTE_TRACE },
    { "/v2/logging", "Which lines are logged", ROUTE_LOGGING },
    { "/v2/repository/index", "The versions of all models", ROUTE_INDEX },
    { "/v2/repository/models/{model}/load", "Loads a model", ROUTE_LOAD },
    { "/v2/repository/models/{model}/unload", "Unloads a model", ROUTE_UNLOAD },
    { "/v2/systemsharedmemory/status", "The regions of shared memory", ROUTE_SHARED_STATUS },
    { "/v2/systemsharedmemory/region/{region}/status", "A region of shared memory", ROUTE_SHARED_STATUS },
    { "/v2/systemsharedmemory/region/{region}/register", "Registers shared memory", ROUTE_SHARED_REGISTER },
    { "/v2/systemsharedmemory/unregister", "Unregisters all shared memory", ROUTE_SHARED_UNREGISTER },
    { "/v2/systemsharedmemory/region/{region}/unregister", "Unregisters shared memory", ROUTE_SHARED_UNREGISTER },
    { "/v2/cudasharedmemory/unregister", "For clients of Triton; no effect", ROUTE_CUDA_UNREGISTER },
    { "/v1/completions", "Completes a text", ROUTE_COMPLETIONS },
    { "/v1/chat/completions", "Answers messages", ROUTE_CHAT },
    { "/v1/responses", "Answers messages, as OpenAI's Responses API", ROUTE_RESPONSES },
    { "/v1/messages", "Answers messages, as Anthropic's Messages API", ROUTE_MESSAGES },
    { "/completion", "Completes a text, in llama-server's form", ROUTE_LLAMA_COMPLETION },
    { "/api/chat", "Answers messages, in Ollama's form", ROUTE_OLLAMA_CHAT },
    { "/api/generate", "Answers or completes a text, in Ollama's form", ROUTE_OLLAMA_GENERATE },
    { "/api/tags", "The models for texts, in Ollama's form", ROUTE_OLLAMA_TAGS },
    { "/infill", "The text between two others, in llama-server's form", ROUTE_INFILL },
    { "/v1/embeddings", "Vectors of texts", ROUTE_EMBEDDINGS },
    { "/v1/audio/transcriptions", "The text of a sound", ROUTE_TRANSCRIPTIONS },
    { "/v1/audio/translations", "The text of a sound in English", ROUTE_TRANSLATIONS },
    { "/v1/rerank", "Texts in the order of their similarity to a query", ROUTE_RERANK },
    { "/v1/score", "The similarity of texts", ROUTE_SCORE },
    { "/rerank", "The same as /v1/rerank, for clients of vLLM and llama-server", ROUTE_RERANK },
    { "/v2/rerank", "The same as /v1/rerank, for clients of vLLM", ROUTE_RERANK },
    { "/score", "The same as /v1/score, for clients of vLLM", ROUTE_SCORE },
    { "/v1/models", "The models for texts", ROUTE_MODELS },
    { "/v1/models/{id}", "A model for texts", ROUTE_MODELS },
    { "/v1/load_lora_adapter", "Loads a LoRA adapter", ROUTE_LOAD_ADAPTER },
    { "/v1/unload_lora_adapter", "Unloads a LoRA adapter", ROUTE_UNLOAD_ADAPTER },
    { "/tokenize", "The tokens of a text or of messages", ROUTE_TOKENIZE },
    { "/detokenize", "The text of tokens", ROUTE_DETOKENIZE },
    { "/apply-template", "The prompt that the model's template makes of messages", ROUTE_APPLY_TEMPLATE },
    { "/slots", "The texts in progress, as llama-server shows them", ROUTE_SLOTS },
    { "/props", "The properties of the model for texts, as llama-server shows them", ROUTE_PROPS },
};

const route_path *route_path_at(size_t index)
{
    return index < sizeof paths / sizeof *paths ? &paths[index] : NULL;
}

struct route route_find(const char *path)
{
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
    if (strcmp(path, "/v2/") == 0)
        return (struct route){ .kind = ROUTE_SERVER };
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (strcmp(path, paths[i].path) == 0)
            return (struct route){ .kind = paths[i].kind };
    return (struct route){ .kind = ROUTE_NONE };
}
