/* session/update.h - replaces weights of a session that is in use. */
#ifndef SESSION_UPDATE_H
#define SESSION_UPDATE_H
#include "session/versions.h"

/* Implements inlay_session_update(). */
INLAY_NODISCARD inlay_status session_update(inlay_session *session, uint32_t count, const char *const *names,
                                            inlay_value *const *values, inlay_diag *diag);
#endif
