/* GET /openapi.json: the description of the REST interface, generated from the table of routes. */
#include "serve/routes/answers.h"
#include <string.h>

/* A parameter for each {name} in the path. */
static void write_parameters(struct strbuf *to, const char *path)
{
    bool some = false;

    for (const char *at = path; (at = strchr(at, '{')) != NULL; at++) {
        strbuf_format(to, "%s{\"name\":\"%.*s\",\"in\":\"path\",\"required\":true,\"schema\":{\"type\":\"string\"}}",
                      some ? "," : "\"parameters\":[", (int)strcspn(at + 1, "}"), at + 1);
        some = true;
    }
    if (some)
        strbuf_text(to, "],");
}

static void write_method(struct strbuf *to, const route_path *path, const char *method, bool is_first)
{
    static const char failure[] = "{\"description\":\"a failure; the body names its cause\",\"content\":{\"application/"
                                  "json\":{\"schema\":{\"type\":\"object\"}}}}";
    const bool posts = strcmp(method, "POST") == 0;
    const access_level level = route_access(path->kind, method);

    strbuf_format(to, "%s\"%s\":{\"summary\":", is_first ? "" : ",", posts ? "post" : "get");
    strbuf_json(to, path->summary, strlen(path->summary));
    strbuf_text(to, ",");
    if (level > ACCESS_EVERYONE)
        strbuf_format(to, "\"security\":[{},{\"%s\":[]}],", level > ACCESS_USERS ? "admin_token" : "token");
    if (posts)
        strbuf_format(to, "\"requestBody\":{\"content\":{\"%s\":{\"schema\":{\"type\":\"object\"}}}},",
                      route_reads_sounds(path->kind) ? "multipart/form-data" : "application/json");
    strbuf_format(to, "\"responses\":{\"200\":{\"description\":\"success\"},\"default\":%s}}", failure);
}

void answer_openapi(struct exchange *exchange)
{
    struct strbuf *to = &exchange->reply;
    const route_path *path;

    strbuf_text(to, "{\"openapi\":\"3.1.0\",\"info\":{\"title\":\"inlay-serve\",\"version\":");
    strbuf_json(to, inlay_version(), strlen(inlay_version()));
    strbuf_text(to, "},\"components\":{\"securitySchemes\":{\"token\":{\"type\":\"http\",\"scheme\":\"bearer\"},"
                    "\"admin_token\":{\"type\":\"http\",\"scheme\":\"bearer\"}}},\"paths\":{");
    for (size_t i = 0; (path = route_path_at(i)) != NULL; i++) {
        const char *methods = route_methods(path->kind);
        const bool gets = strstr(methods, "GET") != NULL;

        strbuf_format(to, "%s\"%s\":{", i > 0 ? "," : "", path->path);
        write_parameters(to, path->path);
        if (gets)
            write_method(to, path, "GET", true);
        if (strstr(methods, "POST") != NULL)
            write_method(to, path, "POST", !gets);
        strbuf_text(to, "}");
    }
    strbuf_text(to, "}}");
    exchange->code = HTTP_OK;
}
