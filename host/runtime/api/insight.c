#include "api/insight.h"
#include "base/parts.h"

const insight_part *api_insight(const char *function, inlay_diag *diag)
{
    if (library_parts.insight == NULL)
        (void)inlay_fail(diag, INLAY_UNSUPPORTED, "%s() " PARTS_LEFT_OUT, function);
    return library_parts.insight;
}
