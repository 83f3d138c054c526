"""A real Kafka broker that requires TLS, a login or both, and the files that its clients need."""

from pathlib import Path

from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from tests.support.certificates import Authority
from tests.support.kafka_broker import Broker

PASSWORD = "p&ss wörd+#"
_JAAS = "org.apache.kafka.common.security"


class SecureBroker:
    """The broker, and the files; ``cdc`` signs in with ``PASSWORD``."""

    def __init__(self, folder: Path) -> None:
        authority = Authority(folder / "pki")
        key, certificate = authority.sign("server")
        store = folder / "server.pem"
        store.write_text(key.read_text() + certificate.read_text())
        self.ca = authority.certificate
        self.key, self.cert = authority.sign("client")
        self.other_ca = Authority(folder / "other", "other").certificate
        options = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
            "listener.name.ssl.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        }
        for name in ("sasl_ssl", "sasl_plaintext"):
            login = f'{_JAAS}.plain.PlainLoginModule required user_cdc="{PASSWORD}";'
            login = "".join(one if one.isascii() else f"\\u{ord(one):04x}" for one in login)
            options[f"listener.name.{name}.plain.sasl.jaas.config"] = login
            for mechanism in ("scram-sha-256", "scram-sha-512"):
                scram = f"{_JAAS}.scram.ScramLoginModule required;"
                options[f"listener.name.{name}.{mechanism}.sasl.jaas.config"] = scram
        self.broker = Broker(folder / "kafka", options, protocols=("SSL", "SASL_SSL", "SASL_PLAINTEXT"))
        self.broker.start()
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            user = UserScramCredentialUpsertion("cdc", ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
            self.broker.admin.alter_user_scram_credentials([user])["cdc"].result(30)
