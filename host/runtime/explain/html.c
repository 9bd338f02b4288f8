/* The explanation as a page: one file that needs nothing else, drawn by its own script from the JSON within. */
#include "explain/internal.h"
#include "report/page.h"

void html_session(const facts *f, const explain_view *view)
{
    const explain_sink *sink = view->sink;

    page_data_begin("inlay explain", page_css, page_html, sink->write, sink->user);
    json_session(f, view);
    page_data_end(page_js, sink->write, sink->user);
}
