// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <arpa/inet.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <libmnl/libmnl.h>

#include "rdma-agg.h"

/* ---- JSON ---- */

static int json_depth;
static bool json_first = true;

static void json_line(void)
{
	if (!opt.pretty)
		return;
	printf("\n%*s", json_depth * 4, "");
}

/* Before each element of an array or object. */
static void json_sep(void)
{
	if (!json_first)
		putchar(',');
	json_first = false;
	if (json_depth)
		json_line();
}

static void json_open(char c)
{
	putchar(c);
	json_depth++;
	json_first = true;
}

static void json_close(char c)
{
	json_depth--;
	if (!json_first)
		json_line();
	putchar(c);
	json_first = false;
}

/* Names come from the kernel and may hold any byte; what is no UTF-8 is escaped. */
static void json_string(const char *s)
{
	const unsigned char *p = (const unsigned char *)s;

	putchar('"');
	while (*p) {
		int n = *p < 0x80 ? 1 : (*p & 0xe0) == 0xc0 ? 2 : (*p & 0xf0) == 0xe0 ? 3 :
			(*p & 0xf8) == 0xf0 ? 4 : 0;
		bool ok = n;

		for (int i = 1; i < n; i++)
			ok = ok && (p[i] & 0xc0) == 0x80;
		if (*p == '"' || *p == '\\') {
			printf("\\%c", *p++);
		} else if (ok && (n > 1 || *p >= 0x20)) {
			fwrite(p, 1, n, stdout);
			p += n;
		} else {
			printf("\\u%04x", *p++);
		}
	}
	putchar('"');
}

static void json_key(const char *key)
{
	json_sep();
	json_string(key);
	fputs(opt.pretty ? ": " : ":", stdout);
}

static void json_attrs(const struct set *set, const struct obj *obj);

static void json_value(const struct attr *a, const struct nlattr *attr)
{
	struct obj one = { .attrs = (void *)attr, .len = MNL_ALIGN(attr->nla_len) };
	int type = mnl_attr_get_type(attr);
	const char *name;
	char text[INET6_ADDRSTRLEN];

	switch (a->kind) {
	case ATTR_S32:
		printf("%d", (int)obj_u32(&one, type));
		break;
	case ATTR_HEX32:
		printf("\"0x%08x\"", obj_u32(&one, type));
		break;
	case ATTR_HEX64:
		printf("\"0x%016llx\"", (unsigned long long)obj_u64(&one, type));
		break;
	case ATTR_STRING:
		json_string(obj_str(&one, type));
		break;
	case ATTR_GID:
		if (obj_gid(&one, type) &&
		    inet_ntop(AF_INET6, obj_gid(&one, type), text, sizeof(text)))
			printf("\"%s\"", text);
		else
			printf("null");
		break;
	case ATTR_ENUM:
		name = name_of(a->names, obj_u32(&one, type));
		if (name)
			json_string(name);
		else
			printf("%u", obj_u32(&one, type));
		break;
	case ATTR_NEST:
		one.attrs = mnl_attr_get_payload(attr);
		one.len = mnl_attr_get_payload_len(attr);
		json_open('{');
		json_attrs(a->nest, &one);
		json_close('}');
		break;
	default:
		printf("%llu", (unsigned long long)obj_u64(&one, type));
	}
}

static void json_attrs(const struct set *set, const struct obj *obj)
{
	const struct nlattr *attr;

	for (int type = 0; type <= set->max; type++) {
		const struct attr *a = &set->attr[type];

		if (!a->name || !obj_has(obj, type))
			continue;
		json_key(a->name);
		if (!a->multi) {
			json_value(a, obj_attr(obj, type));
			continue;
		}
		json_open('[');
		mnl_attr_for_each_payload(obj->attrs, obj->len) {
			if (mnl_attr_get_type(attr) != type)
				continue;
			json_sep();
			json_value(a, attr);
		}
		json_close(']');
	}
}

/* An array of all objects. */
void json_objs(const struct set *set, const struct objs *objs)
{
	json_first = true;
	json_open('[');
	for (unsigned int i = 0; i < objs->nr; i++) {
		json_sep();
		json_open('{');
		json_attrs(set, &objs->obj[i]);
		json_close('}');
	}
	json_close(']');
	putchar('\n');
}

/* One line: the name of the message and what it says. */
void json_event(const char *name, const struct set *set, const struct obj *obj)
{
	json_first = true;
	json_depth = 0;
	json_open('{');
	json_key("name");
	json_string(name);
	if (obj) {
		json_key("msg");
		json_open('{');
		json_attrs(set, obj);
		json_close('}');
	}
	json_close('}');
	putchar('\n');
	fflush(stdout);
}

/* ---- tables ---- */

struct table {
	const char *const *heads;
	int cols;
	int cells;
	char **cell;
};

struct table *table_new(const char *const *heads)
{
	struct table *t = calloc(1, sizeof(*t));

	if (!t)
		abort();
	t->heads = heads;
	while (heads[t->cols])
		t->cols++;
	return t;
}

void table_cell(struct table *t, const char *fmt, ...)
{
	va_list ap;

	t->cell = realloc(t->cell, (t->cells + 1) * sizeof(*t->cell));
	va_start(ap, fmt);
	if (!t->cell || vasprintf(&t->cell[t->cells], fmt, ap) < 0)
		abort();
	va_end(ap);
	t->cells++;
}

static void table_row(const struct table *t, const int *width, char *const *cell)
{
	for (int c = 0; c < t->cols; c++) {
		bool right = t->heads[c][0] == '>';
		const char *s = cell ? cell[c] : t->heads[c] + right;
		int pad = width[c] - (int)strlen(s);

		if (c)
			fputs("  ", stdout);
		if (right)
			printf("%*s", pad, "");
		fputs(s, stdout);
		if (!right && c < t->cols - 1)
			printf("%*s", pad, "");
	}
	putchar('\n');
}

void table_print(struct table *t)
{
	int width[t->cols];

	for (int c = 0; c < t->cols; c++) {
		width[c] = strlen(t->heads[c]) - (t->heads[c][0] == '>');
		for (int i = c; i < t->cells; i += t->cols)
			if ((int)strlen(t->cell[i]) > width[c])
				width[c] = strlen(t->cell[i]);
	}
	/* nothing to show, nothing shown */
	if (t->cells)
		table_row(t, width, NULL);
	for (int i = 0; i + t->cols <= t->cells; i += t->cols)
		table_row(t, width, &t->cell[i]);
	for (int i = 0; i < t->cells; i++)
		free(t->cell[i]);
	free(t->cell);
	free(t);
}

/* ---- values as people read them ---- */

const char *str(const char *fmt, ...)
{
	static char buf[16][128];
	static unsigned int next;
	char *s = buf[next++ % 16];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(s, sizeof(buf[0]), fmt, ap);
	va_end(ap);
	return s;
}

/* An IPv4 address as such. */
const char *str_gid(const void *gid)
{
	static const unsigned char v4[12] = { [10] = 0xff, [11] = 0xff };
	char text[INET6_ADDRSTRLEN];

	if (!gid)
		return "-";
	if (!memcmp(gid, v4, sizeof(v4)))
		inet_ntop(AF_INET, (const char *)gid + 12, text, sizeof(text));
	else
		inet_ntop(AF_INET6, gid, text, sizeof(text));
	return str("%s", text);
}

const char *str_bytes(uint64_t bytes)
{
	static const char *const unit[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double v = bytes;
	int u = 0;

	if (opt.exact)
		return str("%llu", (unsigned long long)bytes);
	if (bytes < 1024)
		return str("%u B", (unsigned int)bytes);
	while (v >= 1023.995 && u < 6) {
		v /= 1024;
		u++;
	}
	return str(v < 99.995 ? "%.2f %s" : "%.1f %s", v, unit[u]);
}

const char *str_speed(uint64_t mbps)
{
	if (!mbps)
		return "-";
	if (mbps < 1000)
		return str("%u Mb/s", (unsigned int)mbps);
	return str("%.4g Gb/s", mbps / 1000.0);
}

const char *str_guid(uint64_t guid)
{
	return str("%04x:%04x:%04x:%04x", (unsigned int)(guid >> 48),
		   (unsigned int)(guid >> 32 & 0xffff), (unsigned int)(guid >> 16 & 0xffff),
		   (unsigned int)(guid & 0xffff));
}

/* How long ago, by the wall clock, which may have been set meanwhile. */
const char *str_since(uint64_t ns)
{
	struct timespec now;
	long long s;

	if (!ns)
		return "-";
	clock_gettime(CLOCK_REALTIME, &now);
	s = now.tv_sec - (long long)(ns / 1000000000);
	if (s < 0)
		s = 0;
	if (s < 120)
		return str("%lld s", s);
	if (s < 2 * 3600)
		return str("%lld min", s / 60);
	if (s < 2 * 86400)
		return str("%lld h", s / 3600);
	return str("%lld d", s / 86400);
}

const char *str_ms(uint32_t ms)
{
	if (ms && ms % 1000 == 0)
		return str("%u s", ms / 1000);
	return str("%u ms", ms);
}
