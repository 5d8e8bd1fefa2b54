-- Records a channel's last notification.
-- :channel, :id, :sent_us
INSERT INTO __alkstore_notification (channel, id, sent_us)
VALUES (:channel, :id, :sent_us)
ON CONFLICT (channel) DO UPDATE SET id = excluded.id, sent_us = excluded.sent_us
