/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What session.c, conn.c and keys.c share. See session.h for the interface.
 *
 *   session.c   devices, listeners
 *   peer.c      peers
 *   conn.c      one TCP connection: socket, framing, calls, requests, keepalive
 *   handshake.c HELLO and its authentication
 *   dispatch.c  messages of an established connection
 *   keys.c      remote keys: cache of the asker, record of the owner
 *
 * LOCK ORDER (outermost first)
 *
 *   agg_listen_mutex     mutex   list of listeners; taken below rtnl, so rtnl
 *                                must never be taken below it
 *   conn->setup          mutex   creation of the socket against its close
 *   agg_sess_lock        spin    list of devices, dev->sess, listener->pending
 *   sess->lock           spin    peers and accepted connections of a device, its key
 *   peer->lock           spin    state of a peer
 *   conn->asked.xa_lock  spin    keys told, and the order of replies and KEY_GONE
 *   conn->lock           spin    state of a connection, its queues
 *   keys->xa.xa_lock     spin    irqs off: agg_peer_key() runs below sq.lock;
 *                                nothing is taken below it
 *
 * WORK
 *
 *   agg_sess_wq  never blocks on anything but memory and socket locks, so what
 *                others wait for here always makes progress
 *   agg_req_wq   requests of peers (may sleep in verbs), end of idle peers
 *   agg_ask_wq   requests that wait for a request in the other direction: ASK
 *                is answered when the OFFER it causes is. Theirs is another
 *                queue and another limit, or enough of them would wait for ever
 *
 * LIFETIME OF A CONNECTION
 *
 * The base reference belongs to the open connection. agg_conn_fail() says once
 * why it ends and queues close_work, and only close_work takes things down:
 *
 *   1. conn->closing under conn->lock: nobody queues its work any more
 *   2. socket callbacks detached under sk_callback_lock: neither do they
 *   3. cancel_work_sync() of rx, tx and timer: final because of 1 and 2
 *   4. unlinked; calls fail; the peer is told; the socket is released
 *   5. the base reference is put
 *
 * Work of a connection may call agg_conn_fail() but never waits for close_work.
 */
#ifndef AGG_CONN_H
#define AGG_CONN_H

#include <linux/bitmap.h>
#include <linux/in6.h>
#include <linux/net.h>
#include <linux/socket.h>

#include "session.h"

struct crypto_shash;

#define AGG_CONN_HELLO_MS	5000	/* an accepted connection must say HELLO */
#define AGG_CONN_DRAIN_MS	1000	/* for a refusal to reach the other side */
#define AGG_CONN_MAX_PENDING	64	/* accepted, not established, per listener */
#define AGG_CONN_MAX_ACCEPTED	4096	/* established, per device */
#define AGG_CONN_MAX_REQS	256	/* of the other side, being served: read no more */
#define AGG_CONN_MAX_ASKS	1024	/* ATTACHes of kind ASK, beside these: refuse more */
#define AGG_CONN_TX_HIGH	128	/* replies waiting: read no more requests */
#define AGG_CONN_TX_MAX		2048	/* messages waiting: refuse more */
#define AGG_CONN_MAX_ASKED	65536	/* keys told on one connection */
#define AGG_PEER_BACKOFF_MIN_MS	50
#define AGG_PEER_BACKOFF_MAX_MS	1000
#define AGG_PEER_IDLE_MS	30000	/* a peer without QPs is forgotten */
#define AGG_PEER_LOGGED_BITS	256
#define AGG_PEER_MAX_BACKLOG	4096	/* DETACHes waiting for the session */
#define AGG_KEYS_MAX		65536	/* cached, per peer */
#define AGG_KEYS_MAX_PENDING	4096
#define AGG_KEYS_WAIT_MS	5000	/* a key that is not answered for */
#define AGG_KEYS_TOLD_MS	1000	/* a refusal waits for its QP */

/* One message on its way out. */
struct agg_msg {
	struct list_head node;
	u16 len;
	u16 off;		/* bytes handed to TCP */
	u8 data[];
};

/* A pre-shared key; only its schedule in @tfm exists. */
struct agg_psk {
	struct kref ref;
	struct crypto_shash *tfm;
};

/*
 * struct agg_listener - the listening socket of one (namespace, port)
 * @ref: each user and each accepted connection holds one
 * @node: agg_listeners, under agg_listen_mutex
 * @users: devices, under agg_listen_mutex
 * @pending: accepted and not established (agg_conn.pending), agg_sess_lock
 */
struct agg_listener {
	struct kref ref;
	struct list_head node;
	unsigned int users;
	struct net *net;
	u16 port;
	struct socket *sock;
	void (*old_data_ready)(struct sock *sk);
	struct delayed_work accept_work;
	struct list_head pending;
	unsigned int nr_pending;
};

/*
 * struct agg_session_dev - the sessions of one agg device
 * @ref: dev->sess holds one; each peer and each connection holds one
 * @node: agg_sess_devs, under agg_sess_lock
 * @dev: valid until agg_session_dev_stop() returns
 * @listener: under agg_sess_lock
 * @lock: @peers, @conns, @stopping, @psk, @peer_seq
 * @active: requests being served and peers being taken down; stop waits for 0
 */
struct agg_session_dev {
	struct kref ref;
	struct list_head node;
	struct agg_dev *dev;
	struct agg_listener *listener;
	spinlock_t lock;	/* see above */
	struct list_head peers;
	struct list_head conns;
	unsigned int nr_conns;
	unsigned long peer_seq;
	bool stopping;
	struct agg_psk *psk;
	atomic_t active;
	wait_queue_head_t active_wait;
	struct completion stopped;
	struct rcu_head rcu;
};

/*
 * struct agg_keys - remote keys of one peer
 * @xa: rkey -> struct agg_key; its lock protects everything here
 * @active: keys that somebody waits for
 * @told: QPs that have been or are to be woken (struct agg_key_waiter)
 */
struct agg_keys {
	struct xarray xa;
	struct list_head active;
	struct list_head told;
	u32 nr_valid;
	u32 nr_pending;
	unsigned long evict;
	bool closed;
	struct work_struct ask_work;
	struct delayed_work reap_work;
};

/*
 * struct agg_peer - a remote agg device as one of our GIDs sees it
 * @ref: the table, each user, each connection
 * @node: sess->peers, under sess->lock, in the order of @seq
 * @users: agg_peer_get() minus agg_peer_put()
 * @conn: the connection we opened; holds a reference
 * @up: HELLO is done on @conn
 * @dead: taken down; set once, under sess->lock and @lock
 * @wanted: somebody has asked for the session
 * @start_seq: attempts started
 * @fail_seq: the last attempt that failed
 * @cand: address being tried: 0 = the peer's GID, then its lanes'
 * @backlog: DETACHes (struct agg_msg) waiting for the session
 */
struct agg_peer {
	struct kref ref;
	struct list_head node;
	unsigned long seq;
	struct agg_session_dev *sess;
	union ib_gid sgid, dgid;

	spinlock_t lock;	/* everything below up to @keys */
	unsigned int users;
	struct agg_conn *conn;
	bool up;
	bool dead;
	bool wanted;
	bool was_up;
	u64 instance;
	struct agg_wire_lanes lanes;
	u32 start_seq;
	u32 fail_seq;
	unsigned int cand;
	int round_err;
	int last_err;
	DECLARE_BITMAP(logged, AGG_PEER_LOGGED_BITS);	/* causes, by errno */
	unsigned int backoff_ms;
	unsigned long idle_since;
	u64 since;
	u64 reconnects;
	struct list_head backlog;
	unsigned int nr_backlog;
	wait_queue_head_t wait;
	struct delayed_work work;	/* the next attempt */
	struct delayed_work idle_work;

	atomic64_t tx_msgs, rx_msgs;
	struct agg_keys keys;
	struct rcu_head rcu;
};

enum agg_conn_state {
	AGG_CONN_CONNECTING,	/* opened by us: TCP */
	AGG_CONN_HELLO_SENT,
	AGG_CONN_AUTH_SENT,
	AGG_CONN_WAIT_HELLO,	/* accepted */
	AGG_CONN_WAIT_AUTH,
	AGG_CONN_UP,
	AGG_CONN_DRAIN,		/* refused: the ERROR is on its way */
};

/*
 * struct agg_conn - one TCP connection
 * @ref: base (open), each caller and each request
 * @node: sess->conns if accepted, once HELLO named the device
 * @pending: listener->pending until established
 * @sess: NULL until an accepted connection's HELLO named the device
 * @peer: of a connection we opened
 * @err: why it ended, 0 = open; -ENOTCONN = by us, -ESHUTDOWN = by the other side
 * @lock: @state, @closing, @txq, @reqs and the flags beside them
 * @transcript: HELLO, CHALLENGE and the reply as sent, for authentication
 * @asked: rkey -> told to the other side
 * @calls: id -> struct agg_call, ATTACHes that wait for their reply
 */
struct agg_conn {
	struct kref ref;
	struct list_head node;
	struct list_head pending;
	struct agg_listener *listener;
	struct agg_session_dev *sess;
	struct agg_peer *peer;
	struct mutex setup;	/* creation of @sock against close_work */
	struct socket *sock;
	void (*old_data_ready)(struct sock *sk);
	void (*old_state_change)(struct sock *sk);
	void (*old_write_space)(struct sock *sk);
	void (*old_error_report)(struct sock *sk);
	int err;
	u16 last_words;		/* enum agg_wire_error_code to say at the end, or 0 */
	struct work_struct rx_work, tx_work, close_work;
	struct delayed_work timer;

	spinlock_t lock;	/* from here to @nr_asks */
	enum agg_conn_state state;
	bool closing;
	bool rx_stalled;
	bool lanes_dirty;
	bool gone_all;
	bool fin_sent;
	struct list_head txq;
	unsigned int txq_len;
	struct list_head reqs;
	unsigned int nr_reqs, nr_asks;

	/* rx_work only */
	u8 *rxbuf;
	unsigned int rxpos, rxlen;
	unsigned long last_rx;
	bool pinging;
	unsigned long ping_at;

	/* written before the state that makes them valid, constant then */
	union ib_gid lgid, rgid;
	u64 instance;

	/* handshake: rx_work only */
	struct agg_psk *psk;
	u8 *transcript;
	unsigned int transcript_len;
	struct agg_wire_hello *hello;

	struct xarray calls;
	u32 next_call;
	struct xarray asked;
	u32 nr_asked;
	struct rcu_head rcu;
};

static inline bool agg_conn_outbound(const struct agg_conn *c)
{
	return c->peer;
}

extern spinlock_t agg_sess_lock;
extern struct workqueue_struct *agg_sess_wq;
extern struct workqueue_struct *agg_req_wq;
extern struct workqueue_struct *agg_ask_wq;

/* session.c */
struct agg_session_dev *agg_sess_get(struct agg_dev *dev);
void agg_sess_put(struct agg_session_dev *sess);
void agg_sess_reset(struct agg_session_dev *sess, int err);
struct agg_session_dev *agg_sess_find(struct agg_listener *l, const u8 *gid);
bool agg_sess_add_conn(struct agg_session_dev *sess, struct agg_conn *c);
void agg_sess_active_put(struct agg_session_dev *sess);
void agg_listener_put_ref(struct agg_listener *l);
void agg_listener_count(struct agg_listener *l, enum agg_counter c);

#define AGG_GID_STR	48
const char *agg_gid_str(char *buf, const union ib_gid *gid);

/* peer.c */
int agg_peer_addr(struct agg_peer *peer, unsigned int cand, struct sockaddr_storage *local,
		  struct sockaddr_storage *remote, unsigned int *tmo_ms);
bool agg_peer_conn_up(struct agg_peer *peer, struct agg_conn *c,
		      const struct agg_wire_hello *hello);
void agg_peer_conn_down(struct agg_peer *peer, struct agg_conn *c, int err);
void agg_peer_lanes_update(struct agg_peer *peer, const struct agg_wire_lanes *lanes);
void agg_peer_inbound(struct agg_conn *c, const struct agg_wire_lanes *lanes);
struct agg_conn *agg_peer_conn_get(struct agg_peer *peer);
void agg_peer_want(struct agg_peer *peer);
void agg_peer_put_ref(struct agg_peer *peer);
struct agg_peer *agg_peer_first(struct agg_session_dev *sess);
void agg_peer_kill(struct agg_peer *peer);

/* conn.c */
struct agg_msg *agg_msg_alloc(size_t size, gfp_t gfp);
struct agg_conn *agg_conn_alloc(void);
void agg_conn_open(struct agg_conn *c, unsigned int cand);
void agg_conn_accept(struct agg_listener *l, struct socket *sock);
void agg_conn_put(struct agg_conn *c);
void agg_conn_fail(struct agg_conn *c, int err);
void agg_conn_count(struct agg_conn *c, enum agg_counter cnt);
void agg_conn_bad(struct agg_conn *c, const char *what);
void agg_conn_refuse(struct agg_conn *c, u16 code, u32 id);
void agg_conn_close_sync(struct agg_conn *c, int err);
int agg_conn_send(struct agg_conn *c, struct agg_msg *m);
void agg_conn_set_state(struct agg_conn *c, enum agg_conn_state state);
void agg_conn_timer_set(struct agg_conn *c, unsigned int ms);
void agg_conn_lanes_dirty(struct agg_conn *c);
void agg_conn_gone_all(struct agg_conn *c);
void agg_conn_ping(struct agg_conn *c);
int agg_conn_send_empty(struct agg_conn *c, u8 type, u8 flags, u32 id);
void agg_conn_unstall(struct agg_conn *c);
void agg_conn_unpend(struct agg_conn *c);

/* dispatch.c */
int agg_conn_attach(struct agg_conn *c, const struct agg_wire_attach *req,
		    struct agg_wire_attach *resp, unsigned int timeout_ms);
void agg_conn_fail_calls(struct agg_conn *c);
int agg_conn_rx_msg(struct agg_conn *c, const struct agg_wire_hdr *hdr, const u8 *msg, size_t len);

/* handshake.c */
struct agg_psk *agg_sess_psk(struct agg_session_dev *sess);
void agg_psk_put(struct agg_psk *psk);
void agg_hello_start(struct agg_conn *c);
int agg_hello_rx(struct agg_conn *c, const struct agg_wire_hdr *hdr, const u8 *msg, size_t len);
void agg_hello_free(struct agg_conn *c);
void agg_sess_lanes(struct agg_dev *dev, struct agg_wire_lanes *lanes);

/* keys.c */
void agg_keys_init(struct agg_keys *keys);
void agg_keys_close(struct agg_peer *peer);
void agg_keys_destroy(struct agg_keys *keys);
void agg_keys_session_up(struct agg_peer *peer, bool same_instance);
void agg_keys_reply(struct agg_peer *peer, const struct agg_wire_key *m);
void agg_keys_gone(struct agg_peer *peer, const struct agg_wire_key_gone *m);
int agg_keys_serve(struct agg_conn *c, u32 id, u32 rkey);
void agg_keys_conn_gone(struct agg_conn *c, u32 rkey);

#endif /* AGG_CONN_H */
