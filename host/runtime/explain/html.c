/* The explanation as a page: one file that needs nothing else, drawn by its own script from the JSON within. */
#include "explain/internal.h"
#include "report/page.h"
#include <string.h>

static void put(const explain_sink *sink, const char *text)
{
    sink->write(sink->user, text, strlen(text));
}

void html_session(const facts *f, const explain_view *view)
{
    const explain_sink *sink = view->sink;

    put(sink, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\" />\n"
              "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\" />\n"
              /* Whatever a model's names say, nothing is fetched and nothing is sent. */
              "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
              "script-src 'unsafe-inline'\" />\n<title>inlay explain</title>\n<style>\n");
    put(sink, page_css);
    put(sink, "</style>\n</head>\n<body>\n");
    put(sink, page_html);
    put(sink, "<script type=\"application/json\" id=\"facts\">\n");
    json_session(f, view); /* has no '<' and no '&' in it */
    put(sink, "\n</script>\n<script>\n'use strict';\n(function () {\n");
    put(sink, page_js);
    put(sink, "})();\n</script>\n</body>\n</html>\n");
}
