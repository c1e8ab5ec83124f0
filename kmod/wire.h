/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The messages of a session, in host order, and their codec.
 *
 * The codec is pure: no locks, no allocation, no ib_* calls. The same file is
 * compiled into the module, the unit test and the fuzzer. All structures on
 * the wire are big-endian, without padding, and described in
 * Documentation/protocol.rst; nothing here is a memory image of them.
 */
#ifndef AGG_WIRE_H
#define AGG_WIRE_H

#include <linux/types.h>

#define AGG_WIRE_MAGIC		0x52414747u	/* "RAGG", first word of HELLO */
#define AGG_WIRE_VERSION	1
#define AGG_WIRE_HDR_LEN	12
#define AGG_WIRE_MAX_LEN	4096		/* of one message, header included */
#define AGG_WIRE_GID_LEN	16
#define AGG_WIRE_MAX_LANES	16
#define AGG_WIRE_LANE_GIDS	4
#define AGG_WIRE_LANE_NONE	0xff
#define AGG_WIRE_NONCE_LEN	32
#define AGG_WIRE_MAC_LEN	32		/* HMAC-SHA256 */
#define AGG_WIRE_NAME_LEN	64
#define AGG_WIRE_MAX_GONE	64		/* keys in one KEY_GONE */

enum agg_wire_type {
	AGG_WIRE_HELLO		= 1,
	AGG_WIRE_CHALLENGE	= 2,
	AGG_WIRE_AUTH		= 3,
	AGG_WIRE_ERROR		= 4,	/* the sender closes; layout is frozen for all versions */
	AGG_WIRE_PING		= 5,
	AGG_WIRE_BYE		= 6,
	AGG_WIRE_ATTACH		= 7,
	AGG_WIRE_DETACH		= 8,
	AGG_WIRE_KEY		= 9,
	AGG_WIRE_KEY_GONE	= 10,
	AGG_WIRE_LANE		= 11,
};

#define AGG_WIRE_F_REPLY	0x01	/* answers the request of the same id */

struct agg_wire_hdr {
	u16 len;		/* of the message, this header included */
	u8 version;
	u8 type;		/* enum agg_wire_type */
	u8 flags;
	u32 id;			/* of the request; 0 = no reply is wanted */
};

/**
 * struct agg_wire_lane - a lane as told to a peer
 * @id: lane id of the sender, < AGG_WIRE_MAX_LANES
 * @rail: lanes of equal rail are paired
 * @state: enum agg_lane_state
 * @mtu: enum ib_mtu, 1 to 5
 * @nr_gids: addresses in @gid
 * @gid: addresses of the lane itself
 * @speed: Mbit/s
 * @weight: as used by the sender's lane choice
 * @poison_rkey: a key of this lane that is never valid: stands for a remote
 *	key the sender does not have, so that the refusal comes from the lane
 * @probe_qpn: UD QP of the lane that answers probes, 0 = none
 * @probe_qkey: its Q_Key
 */
struct agg_wire_lane {
	u8 id;
	u8 rail;
	u8 state;
	u8 mtu;
	u8 nr_gids;
	u8 gid[AGG_WIRE_LANE_GIDS][AGG_WIRE_GID_LEN];
	u32 speed;
	u32 weight;
	u32 poison_rkey;
	u32 probe_qpn;
	u32 probe_qkey;
};

/**
 * struct agg_wire_lanes - a lane table; the body of LANE, a part of HELLO
 * @instance: of the sending device
 * @epoch: grows with each change; older tables are ignored
 * @nr: entries of @lane, each with a different id
 * @lane: the lanes
 */
struct agg_wire_lanes {
	u64 instance;
	u32 epoch;
	u8 nr;
	struct agg_wire_lane lane[AGG_WIRE_MAX_LANES];
};

#define AGG_WIRE_HELLO_AUTH	0x01	/* the sender has a pre-shared key */

/**
 * struct agg_wire_hello - who speaks, to whom
 * @flags: AGG_WIRE_HELLO_*
 * @features: optional abilities, a bit each; none is defined yet
 * @guid: node GUID of the sending device
 * @sgid: GID of the sender
 * @dgid: GID of the device that is wanted
 * @nonce: random; goes into the authentication of the other side
 * @name: name of the sending device, for logs; zero terminated, printable
 * @lanes: instance and lane table of the sending device
 */
struct agg_wire_hello {
	u8 flags;
	u64 features;
	u64 guid;
	u8 sgid[AGG_WIRE_GID_LEN];
	u8 dgid[AGG_WIRE_GID_LEN];
	u8 nonce[AGG_WIRE_NONCE_LEN];
	char name[AGG_WIRE_NAME_LEN];
	struct agg_wire_lanes lanes;
};

struct agg_wire_challenge {
	u8 nonce[AGG_WIRE_NONCE_LEN];
};

struct agg_wire_auth {
	u8 mac[AGG_WIRE_MAC_LEN];
};

enum agg_wire_error_code {
	AGG_WIRE_ERR_VERSION	= 1,	/* of the protocol; the sender's is in @version */
	AGG_WIRE_ERR_NO_DEVICE	= 2,	/* no agg device here has the GID asked for */
	AGG_WIRE_ERR_AUTH	= 3,	/* wrong pre-shared key */
	AGG_WIRE_ERR_NEED_AUTH	= 4,	/* here is a key, the asker has none */
	AGG_WIRE_ERR_NO_AUTH	= 5,	/* here is no key, the asker has one */
	AGG_WIRE_ERR_BUSY	= 6,	/* too many connections */
	AGG_WIRE_ERR_BAD_MSG	= 7,	/* malformed or not expected now */
};

struct agg_wire_error {
	u16 code;		/* enum agg_wire_error_code */
	u8 version;		/* AGG_WIRE_VERSION of the sender */
};

enum agg_wire_attach_kind {
	AGG_WIRE_ASK	= 1,	/* the follower asks the leader to lead */
	AGG_WIRE_OFFER	= 2,	/* the leader gives a path */
	AGG_WIRE_RQSTATE = 3,	/* has your QP had no receive for the RNR grace time? */
	AGG_WIRE_FENCE	= 4,	/* the path failed; here is what I have executed, and you? */
	AGG_WIRE_READY	= 5,	/* the leader's end of the new path takes packets */
	AGG_WIRE_MOVE	= 6,	/* the leader has nothing outstanding and wants another path */
};

enum agg_wire_attach_status {
	AGG_WIRE_OK		= 0,
	AGG_WIRE_NO_QP		= 1,	/* no such QP */
	AGG_WIRE_MISMATCH	= 2,	/* the QP's application named another peer */
	AGG_WIRE_NO_LANE	= 3,	/* no usable lane */
	AGG_WIRE_REFUSED	= 4,
	AGG_WIRE_GONE		= 5,	/* another instance, or an unknown cookie */
	AGG_WIRE_BAD_STATE	= 6,	/* the QP is not in a state to attach */
	AGG_WIRE_WAIT		= 7,	/* not yet: the QP's application has named no peer */
	AGG_WIRE_BUSY		= 8,	/* out of resources; may be tried again */
	AGG_WIRE_DRY		= 9,	/* RQSTATE: it has had none */
	AGG_WIRE_IN_ERROR	= 10,	/* FENCE: answered, but the QP is in the error state */
	AGG_WIRE_STALE		= 11,	/* it is about an epoch of the past */
};

#define AGG_WIRE_ATTACH_NAMED	0x01	/* the sender's application has named the peer */
#define AGG_WIRE_ATTACH_FROZEN	0x02	/* the frozen_* fields are valid */

/**
 * struct agg_wire_attach - one path of an RC QP: ATTACH, its reply, DETACH
 * @kind: enum agg_wire_attach_kind; a reply repeats the request's
 * @status: enum agg_wire_attach_status, of a reply
 * @flags: AGG_WIRE_ATTACH_*
 * @instance_src: of the sender's device
 * @instance_dst: of the receiver's device as the sender knows it, 0 = unknown
 * @cookie_src: of the sender's QP
 * @cookie_dst: of the receiver's QP, 0 = unknown
 * @epoch: of the lane QP pair, see Documentation/failover.rst
 * @sqpn: agg QP number of the sender
 * @dqpn: agg QP number of the receiver
 * @sgid: agg GID of the sender
 * @dgid: agg GID of the receiver
 * @lanes_ok: bit per lane id of the sender that this QP can use
 * @slane: sender's lane of the path, AGG_WIRE_LANE_NONE = not chosen
 * @dlane: receiver's lane of the path, AGG_WIRE_LANE_NONE = not chosen
 * @lane_qpn: sender's QP number on its lane
 * @psn: first PSN the sender will use
 * @lane_gid: address of the sender's lane for this path
 * @mtu: enum ib_mtu the sender can use on the path, 0 = unknown
 * @rnr_timer: min_rnr_timer of the sender's QP
 * @max_rd_atomic: READs and atomics the sender will have outstanding
 * @max_dest_rd_atomic: READs and atomics the sender can answer at a time
 * @frozen_epoch: of the lane QP pair that has failed
 * @frozen_psn: packets the sender executed on it as responder, modulo 2^24
 * @frozen_recvs: receives the sender completed on it
 * @attempt: number of the MOVE, from 1 for each epoch
 *
 * "Sender" is whoever sends this message; in a reply src and dst change sides.
 */
struct agg_wire_attach {
	u8 kind;
	u8 status;
	u8 flags;
	u64 instance_src;
	u64 instance_dst;
	u64 cookie_src;
	u64 cookie_dst;
	u32 epoch;
	u32 sqpn;
	u32 dqpn;
	u8 sgid[AGG_WIRE_GID_LEN];
	u8 dgid[AGG_WIRE_GID_LEN];
	u64 lanes_ok;
	u8 slane;
	u8 dlane;
	u32 lane_qpn;
	u32 psn;
	u8 lane_gid[AGG_WIRE_GID_LEN];
	u8 mtu;
	u8 rnr_timer;
	u8 max_rd_atomic;
	u8 max_dest_rd_atomic;
	u32 frozen_epoch;
	u32 frozen_psn;
	u32 frozen_recvs;
	u32 attempt;
};

enum agg_wire_key_status {
	AGG_WIRE_KEY_OK		= 0,
	AGG_WIRE_KEY_ABSENT	= 1,	/* no such key, or not for remote access */
};

struct agg_wire_key_lane {
	u8 lane;
	u32 rkey;
};

/**
 * struct agg_wire_key - KEY and its reply
 * @rkey: the agg key asked for
 * @status: enum agg_wire_key_status, of a reply
 * @nr: entries of @lane
 * @access: IB_ACCESS_* flags
 * @iova: first address
 * @length: bytes
 * @lane: the key's rkey on each lane of the owner that has it; only these
 */
struct agg_wire_key {
	u32 rkey;
	u8 status;
	u8 nr;
	u32 access;
	u64 iova;
	u64 length;
	struct agg_wire_key_lane lane[AGG_WIRE_MAX_LANES];
};

/**
 * struct agg_wire_key_gone - the owner's notice
 * @nr: entries of @rkey; 0 = all keys the receiver has learned on this connection
 * @rkey: keys that are no longer valid as they were told
 */
struct agg_wire_key_gone {
	u16 nr;
	u32 rkey[AGG_WIRE_MAX_GONE];
};

int agg_wire_frame(const u8 *buf, size_t have, struct agg_wire_hdr *hdr);

int agg_wire_put_empty(u8 *buf, size_t size, u8 type, u8 flags, u32 id);
int agg_wire_put_hello(u8 *buf, size_t size, u8 flags, u32 id, const struct agg_wire_hello *m);
int agg_wire_put_challenge(u8 *buf, size_t size, u32 id, const struct agg_wire_challenge *m);
int agg_wire_put_auth(u8 *buf, size_t size, u8 flags, u32 id, const struct agg_wire_auth *m);
int agg_wire_put_error(u8 *buf, size_t size, u32 id, const struct agg_wire_error *m);
int agg_wire_put_attach(u8 *buf, size_t size, u8 type, u8 flags, u32 id,
			const struct agg_wire_attach *m);
int agg_wire_put_key(u8 *buf, size_t size, u8 flags, u32 id, const struct agg_wire_key *m);
int agg_wire_put_key_gone(u8 *buf, size_t size, const struct agg_wire_key_gone *m);
int agg_wire_put_lanes(u8 *buf, size_t size, const struct agg_wire_lanes *m);

int agg_wire_get_hello(const u8 *msg, size_t len, struct agg_wire_hello *m);
int agg_wire_get_challenge(const u8 *msg, size_t len, struct agg_wire_challenge *m);
int agg_wire_get_auth(const u8 *msg, size_t len, struct agg_wire_auth *m);
int agg_wire_get_error(const u8 *msg, size_t len, struct agg_wire_error *m);
int agg_wire_get_attach(const u8 *msg, size_t len, struct agg_wire_attach *m);
int agg_wire_get_key(const u8 *msg, size_t len, struct agg_wire_key *m);
int agg_wire_get_key_gone(const u8 *msg, size_t len, struct agg_wire_key_gone *m);
int agg_wire_get_lanes(const u8 *msg, size_t len, struct agg_wire_lanes *m);

#endif /* AGG_WIRE_H */
