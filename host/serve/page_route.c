/* GET /: a page that shows the models and what they do. */
#include "serve/server.h"
#include <string.h>

extern const char serve_page[]; /* page/page.html, made by embed.cmake */

void answer_page(struct exchange *exchange)
{
    strbuf_text(&exchange->reply, serve_page);
    exchange->type = "text/html; charset=utf-8";
    exchange->code = MHD_HTTP_OK;
}
