/* What a page in a browser on this machine could do to a server without other protection: reach it by a name that its
 * own DNS maps to 127.0.0.1 (DNS rebinding), or send requests to it whose replies it cannot read. */
#include "serve/exchange/header.h"
#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

/* Whether the list, separated by commas, has the text; "*" has all. */
static bool list_has(const char *list, const char *text, size_t bytes)
{
    while (*list != '\0') {
        size_t length = strcspn(list, ", ");

        if (length > 0 && ((length == 1 && *list == '*') || (length == bytes && strncasecmp(list, text, bytes) == 0)))
            return true;
        list += length;
        list += strspn(list, ", ");
    }
    return false;
}

/* Whether the name belongs to no DNS server: an address, or a name of this machine (RFC 6761, section 6.3). */
static bool is_local_name(const char *name, size_t bytes)
{
    static const char localhost[] = "localhost";
    const size_t length = sizeof localhost - 1;
    char text[64];
    unsigned char address[16];

    if (bytes >= length && strncasecmp(name + bytes - length, localhost, length) == 0 &&
        (bytes == length || name[bytes - length - 1] == '.'))
        return true;
    if (bytes == 0 || bytes >= sizeof text)
        return bytes == 0;
    memcpy(text, name, bytes);
    text[bytes] = '\0';
    if (text[0] == '[' && text[bytes - 1] == ']') {
        text[bytes - 1] = '\0';
        return inet_pton(AF_INET6, text + 1, address) == 1;
    }
    return inet_pton(AF_INET, text, address) == 1;
}

static bool host_is_allowed(struct exchange *exchange, const char *host)
{
    const char *list = settings_text(exchange->request.server->settings, SET_allowed_hosts);
    const char *end = host[0] == '[' ? strchr(host, ']') : strchr(host, ':');
    size_t bytes = end == NULL ? strlen(host) : (size_t)(end - host) + (*end == ']');

    /* Pages do not know a token; a name of a server that other machines reach is not known here. */
    if (list[0] == '\0' &&
        (!exchange->request.client.is_loopback || !tokens_are_none(&exchange->request.server->access.users)))
        return true;
    return is_local_name(host, bytes) || list_has(list, host, bytes);
}

/* Browsers send Origin with every POST. The page of this server has the origin http://HOST. */
static bool origin_is_allowed(const struct exchange *exchange, const char *host, const char *origin)
{
    const char *authority = strstr(origin, "://");

    return (authority != NULL && strcasecmp(authority + 3, host) == 0) ||
           list_has(settings_text(exchange->request.server->settings, SET_allowed_origins), origin, strlen(origin));
}

bool browser_is_allowed(struct exchange *exchange)
{
    const char *host = exchange_field_get(exchange, FIELD_HOST), *origin = exchange_field_get(exchange, FIELD_ORIGIN);
    char text[256];

    if (host == NULL)
        host = "";
    if (!host_is_allowed(exchange, host)) {
        server_refused(exchange->request.server, REFUSED_HOST);
        (void)snprintf(text, sizeof text, "the server does not know its name '%.80s'; add it to allowed_hosts", host);
        exchange_fail(exchange, HTTP_FORBIDDEN, text);
        return false;
    }
    if (origin != NULL && strcmp(exchange->method, "GET") != 0 && strcmp(exchange->method, "HEAD") != 0 &&
        !origin_is_allowed(exchange, host, origin)) {
        server_refused(exchange->request.server, REFUSED_ORIGIN);
        (void)snprintf(text, sizeof text,
                       "requests from pages of '%.80s' are refused; add the origin to allowed_origins", origin);
        exchange_fail(exchange, HTTP_FORBIDDEN, text);
        return false;
    }
    return true;
}
