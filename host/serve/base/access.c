#include "serve/base/access.h"
#include "base/clock.h"
#include "serve/base/server.h"

const access_refusal *access_check(struct server *server, const struct client *client, const char *authorization,
                                   access_level level, uint32_t *out_delay_ms)
{
    static const access_refusal certificate = { 403, "a client certificate signed by an authority of tls_client_ca is "
                                                     "required" },
                                worker = { 403, "not possible with several workers; restart the server to change it" },
                                read_only = { 403, "this server is read-only; start it with an admin_token_file" },
                                user = { 403, "this token may not change the server" },
                                unknown = { 401, "a bearer token is required: Authorization: Bearer TOKEN" };
    struct access_policy *policy = &server->access;
    const char *token = authorization != NULL ? authorization : "";

    *out_delay_ms = 0;
    if (level <= ACCESS_EVERYONE)
        return NULL;
    if (policy->needs_certificates && !client->is_trusted) {
        server_refused(server, REFUSED_CERTIFICATE);
        return &certificate;
    }
    if (level == ACCESS_USERS && tokens_are_none(&policy->users))
        return NULL;
    if (level == ACCESS_ADMINS && policy->is_worker)
        return &worker;
    if (level > ACCESS_USERS && tokens_are_none(&policy->admins))
        return &read_only;
    if (tokens_match(&policy->admins, token))
        return NULL;
    if (tokens_match(&policy->users, token))
        return level == ACCESS_USERS ? NULL : &user;
    if (token[0] != '\0') {
        server_refused(server, REFUSED_TOKEN);
        *out_delay_ms = guard_failed(&policy->guard, &client->address.any, clock_ns());
    }
    return &unknown;
}
