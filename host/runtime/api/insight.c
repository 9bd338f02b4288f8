#include "api/insight.h"
#include "base/parts.h"

static const insight_part *part_if(bool is_there, const char *function, inlay_diag *diag)
{
    if (!is_there)
        (void)inlay_fail(diag, INLAY_UNSUPPORTED, "%s() " PARTS_LEFT_OUT, function);
    return is_there ? library_parts.insight : NULL;
}

const insight_part *api_insight(const char *function, inlay_diag *diag)
{
    return part_if(library_parts.insight != NULL, function, diag);
}

const insight_part *api_tuning(const char *function, inlay_diag *diag)
{
    return part_if(library_parts.insight != NULL && library_parts.insight->tune != NULL, function, diag);
}
